// Max pooling with a table of windows: max_pool3d, adaptive pooling, and their gradients.
#include "ops/pool/window_pool.h"

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/empty.h>

#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/pool/pool.h"
#include "ops/structured.h"
#include "runtime/device_error.h"

namespace mpsx::ops {

void allocate_or_resize_pooled(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                               at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 4)  // a volume without a batch dimension
    allocate_or_resize(out, sizes, options, c10::get_channels_last_strides_3d(sizes));
  else
    allocate_or_resize(out, sizes, options.memory_format(format));
}

void Windows::upload(const Tensor& like) {
  begins.insert(begins.end(), ends.begin(), ends.end());
  table = LaunchTable(std::move(begins), like);
}

void window_max(const Tensor& in, const Windows& windows, const Tensor& out, const Tensor& indices) {
  static const KernelSet kernels("window_max");
  if (out.numel() == 0) return;
  const Tensor x = in.contiguous();
  const bool dense = out.is_contiguous() && indices.is_contiguous();
  const Tensor best = dense ? out : at::empty(out.sizes(), out.options());
  const Tensor where = dense ? indices : at::empty(out.sizes(), indices.options());
  const WindowPoolParams& p = windows.p;
  const int64_t rows = int64_t(p.out[0]) * p.out[1], planes = out.numel() / (rows * p.out[2]);
  TORCH_CHECK(rows <= int64_t(UINT32_MAX) && planes <= int64_t(UINT32_MAX),
              "max_pool: expected a result with fewer than 2^32 rows, got ", out.sizes());
  Launch(kernels.get(tag_of(x)))
      .outputs(best, where)
      .inputs(x)
      .pointer(windows.table.data())
      .bytes(p)
      .groups({uint32_t(rows), uint32_t(planes), 1}, runtime::threads_for_row(uint64_t(p.out[2]) * 4))
      .work(uint64_t(p.out[2]) * 16)
      .run();
  if (dense) return;
  out.copy_(best);
  indices.copy_(where);
}

Tensor planes_as_rows(const Tensor& t, size_t dims) {
  int64_t plane = 1;
  for (size_t d = 0; d < dims; ++d) plane *= t.size(t.dim() - 1 - int64_t(d));
  return t.contiguous().view({plane == 0 ? 0 : t.numel() / plane, plane});
}

void scatter_grad(const char* op, const Tensor& grad, const Tensor& indices, const Tensor& grad_input, size_t dims,
                  bool disjoint) {
  static const KernelSet kernels("window_max_bwd");
  if (grad_input.numel() == 0) return;
  if (!grad_input.is_contiguous()) {
    const Tensor dense = at::empty(grad_input.sizes(), grad_input.options());
    scatter_grad(op, grad, indices, dense, dims, disjoint);
    grad_input.copy_(dense);
    return;
  }
  const Tensor to = planes_as_rows(grad_input, dims);
  if (grad.numel() == 0 || !disjoint || to.size(0) > int64_t(UINT32_MAX)) {
    grad_input.zero_();
    if (grad.numel() > 0) to.scatter_add_(1, planes_as_rows(indices, dims), planes_as_rows(grad, dims));
    return;
  }
  const Tensor from = planes_as_rows(grad, dims), rows_of_indices = planes_as_rows(indices, dims);
  const WindowPlaneParams p{pool_size(to.size(1)), pool_size(from.size(1))};
  Launch(kernels.get(bits_tag(to)))
      .outputs(to)
      .inputs(from, rows_of_indices)
      .bytes(p)
      .pointer(runtime::device_error_record(op))
      .groups({uint32_t(to.size(0)), 1, 1}, runtime::threads_for_row(uint64_t(p.in)))
      .work(uint64_t(p.in) + 4 * uint64_t(p.out))
      .run();
  runtime::check_device_errors();
}

namespace {

using at::IntArrayRef;

// The arguments of max_pool3d. The constructor validates them and raises PyTorch's error messages.
struct Pool3d {
  std::array<int, 3> kernel{}, stride{}, padding{}, dilation{};
  c10::DimVector sizes;  // output sizes

  Pool3d(const Tensor& self, IntArrayRef k, IntArrayRef s, IntArrayRef p, IntArrayRef d, bool ceil_mode)
      : sizes(self.sizes()) {
    for (const auto& [name, v] : {std::pair("kernel_size", k), std::pair("padding", p), std::pair("dilation", d)})
      TORCH_CHECK(v.size() == 1 || v.size() == 3, "max_pool3d: ", name,
                  " must be either a single int, or a tuple of three ints");
    TORCH_CHECK(s.empty() || s.size() == 1 || s.size() == 3,
                "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
    TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
                "max_pool3d: Expected 4D or 5D tensor for input, but got: ", self.sizes());
    for (size_t i = 0; i < 3; ++i) {
      kernel[i] = pool_size(window_argument(k, i, 1));
      stride[i] = pool_size(window_argument(s, i, kernel[i]));
      padding[i] = pool_size(window_argument(p, i, 0));
      dilation[i] = pool_size(window_argument(d, i, 1));
      int64_t& n = sizes[sizes.size() - 3 + i];
      n = at::native::pooling_output_shape<int64_t>(n, kernel[i], padding[i], stride[i], dilation[i], ceil_mode);
    }
    const size_t last = sizes.size();
    at::native::pool3d_shape_check(self, self.size(-4), kernel[0], kernel[1], kernel[2], stride[0], stride[1],
                                   stride[2], padding[0], padding[1], padding[2], dilation[0], dilation[1], dilation[2],
                                   self.size(-3), self.size(-2), self.size(-1), sizes[last - 3], sizes[last - 2],
                                   sizes[last - 1], "max_pool3d_with_indices_out_cpu()");
  }
  Windows windows(const Tensor& self) const {
    Windows w(self.sizes(), sizes, 3);
    for (size_t d = 0; d < 3; ++d) {
      const int64_t in = w.p.in[d], reach = int64_t(kernel[d] - 1) * dilation[d] + 1;
      for (int64_t o = 0; o < w.p.out[d]; ++o) {
        const int64_t start = o * stride[d] - padding[d];
        const int64_t outside = start < 0 ? (-start + dilation[d] - 1) / dilation[d] * dilation[d] : 0;
        w.add(start + outside, std::min(start + reach, in));
      }
      w.p.dilation[d] = dilation[d];
    }
    w.upload(self);
    return w;
  }
};

// Returns the memory format of a volume with or without a batch dimension.
at::MemoryFormat volume_format(const Tensor& self) {
  if (self.dim() == 5) return self.suggest_memory_format();
  const bool last = !self.is_contiguous() && self.unsqueeze(0).is_contiguous(at::MemoryFormat::ChannelsLast3d);
  return last ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::Contiguous;
}

bool max_pool3d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                bool ceil_mode, Tensor& out, Tensor& indices) {
  if (!has_window_kernel(self)) return false;
  const Pool3d pool(self, kernel, stride, padding, dilation, ceil_mode);
  const auto format = volume_format(self);
  allocate_or_resize_pooled(out, pool.sizes, self.options(), format);
  allocate_or_resize_pooled(indices, pool.sizes, self.options().dtype(at::kLong), format);
  window_max(self, pool.windows(self), out, indices);
  return true;
}

bool max_pool3d_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices,
                         Tensor& grad_input) {
  if (!has_window_kernel(grad)) return false;
  const Pool3d pool(self, kernel, stride, padding, dilation, ceil_mode);
  TORCH_CHECK(grad.sizes() == pool.sizes && indices.sizes() == pool.sizes,
              "max_pool3d_with_indices_backward: expected a gradient and indices of shape ", IntArrayRef(pool.sizes),
              ", got ", grad.sizes(), " and ", indices.sizes());
  allocate_or_resize_pooled(grad_input, self.sizes(), grad.options(),
                            self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
  bool disjoint = true;
  for (size_t d = 0; d < 3; ++d) disjoint = disjoint && pool.stride[d] > (pool.kernel[d] - 1) * pool.dilation[d];
  // Whether a window may contain only padding. The index of its maximum is then out of range, and its gradient is
  // dropped.
  bool may_be_all_padding = false;
  for (size_t d = 0; d < 3; ++d)
    may_be_all_padding = may_be_all_padding || (pool.padding[d] > 0 && pool.dilation[d] > 1);
  if (may_be_all_padding) {
    const Tensor out_of_range = indices.ge(self.size(-1) * self.size(-2) * self.size(-3));
    scatter_grad("max_pool3d_with_indices_backward", grad.masked_fill(out_of_range, 0),
                 indices.masked_fill(out_of_range, 0), grad_input, 3, false);
    return true;
  }
  scatter_grad("max_pool3d_with_indices_backward", grad, indices, grad_input, 3, disjoint);
  return true;
}

// Pools over adaptive windows, which divide the input into parts of nearly equal size.
template <size_t D, typename Meta>
bool adaptive_max_pool(const Tensor& self, IntArrayRef size, Tensor& out, Tensor& indices) {
  if (!has_float_kernel(self)) return false;
  Structured<Meta, 2> outputs(out, indices);
  outputs.meta(self, size);
  if (outputs.result(0).numel() > 0) {
    Windows w(self.sizes(), outputs.result(0).sizes(), D);
    for (size_t d = 3 - D; d < 3; ++d)
      for (int64_t o = 0; o < w.p.out[d]; ++o)
        w.add(at::native::start_index(o, w.p.out[d], w.p.in[d]), at::native::end_index(o, w.p.out[d], w.p.in[d]));
    w.upload(self);
    window_max(self, w, outputs.result(0), outputs.result(1));
  }
  return outputs.return_or_copy(out, indices);
}
template <size_t D, typename Meta>
bool adaptive_max_pool_backward(const Tensor& grad, const Tensor& self, const Tensor& indices, Tensor& grad_input) {
  if (!has_float_kernel(grad)) return false;
  Structured<Meta> outputs(grad_input);
  outputs.meta(grad, self, indices);
  bool disjoint = true;
  for (int64_t d = 1; d <= int64_t(D); ++d)
    disjoint = disjoint && grad.size(-d) > 0 && self.size(-d) % grad.size(-d) == 0;
  scatter_grad(D == 2 ? "adaptive_max_pool2d_backward" : "adaptive_max_pool3d_backward", grad, indices,
               outputs.result(), D, disjoint);
  return outputs.return_or_copy(grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"max_pool3d_with_indices", &max_pool3d>(m);
  op<"max_pool3d_with_indices_backward", &max_pool3d_backward>(m);
  op<"adaptive_max_pool2d", &adaptive_max_pool<2, at::meta::structured_adaptive_max_pool2d>>(m);
  op<"adaptive_max_pool3d", &adaptive_max_pool<3, at::meta::structured_adaptive_max_pool3d>>(m);
  op<"adaptive_max_pool2d_backward", &adaptive_max_pool_backward<2, at::meta::structured_adaptive_max_pool2d_backward>>(
      m);
  op<"adaptive_max_pool3d_backward", &adaptive_max_pool_backward<3, at::meta::structured_adaptive_max_pool3d_backward>>(
      m);
}

}  // namespace mpsx::ops
