// im2col and its transpose col2im, and the gradient of Tensor.unfold.
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/col2im.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <ATen/ops/unfold_backward.h>
#include <ATen/ops/zeros.h>

#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/pool/pool.h"
#include "pool/window_params.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

int32_t narrow(int64_t n) {
  TORCH_CHECK(n >= 0 && n <= INT32_MAX, "fold: expected sizes below 2^31, got ", n);
  return int32_t(n);
}

// Returns the parameters of the windows for planes of size `size`.
FoldParams fold_params(IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
                       IntArrayRef stride) {
  const auto windows = [&](size_t d) {
    return narrow((size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1);
  };
  return {narrow(size[0]),    narrow(size[1]),    windows(0),          windows(1),
          narrow(kernel[0]),  narrow(kernel[1]),  narrow(dilation[0]), narrow(dilation[1]),
          narrow(padding[0]), narrow(padding[1]), narrow(stride[0]),   narrow(stride[1])};
}

// Sums the overlapping windows in `columns` to obtain the planes of `out`. Both tensors must be dense.
void fold(const Tensor& out, const Tensor& columns, int64_t planes, const FoldParams& p) {
  static const KernelSet kernels("fold");
  if (out.numel() == 0) return;
  Launch(kernels.get(tag_of(out)))
      .outputs(out)
      .inputs(columns)
      .bytes(p)
      .groups({uint32_t(p.height), uint32_t(planes), 1}, runtime::threads_for_row(uint64_t(p.width) * 4))
      .work(uint64_t(p.width) * (1 + uint64_t(p.kernel_w * p.kernel_h) / uint64_t(p.stride_w * p.stride_h)))
      .run();
}

void check_pairs(const char* op, std::initializer_list<IntArrayRef> arguments) {
  for (const IntArrayRef v : arguments)
    TORCH_CHECK(v.size() == 2, op, ": expected two elements in kernel_size, dilation, padding and stride, got ", v);
}

bool im2col(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride,
            Tensor& out) {
  static const KernelSet kernels("im2col");
  if (!is_bitwise_copyable(self)) return false;
  check_pairs("im2col", {kernel, dilation, padding, stride});
  at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                 stride[0], stride[1]);
  const bool batched = self.dim() == 4;
  const Tensor x = self.contiguous();
  const FoldParams p = fold_params({x.size(-2), x.size(-1)}, kernel, dilation, padding, stride);
  const int64_t images = batched ? x.size(0) : 1, planes = images * x.size(-3), taps = kernel[0] * kernel[1];
  c10::DimVector sizes{images, x.size(-3) * taps, int64_t(p.windows_h) * p.windows_w};
  if (!batched) sizes.erase(sizes.begin());
  allocate_or_resize(out, sizes, self.options());
  if (out.numel() == 0) return true;
  const Tensor result = out.is_contiguous() ? out : at::empty(sizes, out.options());
  Launch(kernels.get(bits_tag(x)))
      .outputs(result)
      .inputs(x)
      .bytes(p)
      .threads(uint64_t(p.windows_w), uint64_t(p.windows_h), uint64_t(taps * planes))
      .run();
  if (!result.is_same(out)) out.copy_(result);
  return true;
}

bool col2im(const Tensor& self, IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
            IntArrayRef stride, Tensor& out) {
  const bool complex = self.scalar_type() == at::kComplexFloat && is_plain(self);
  if (!has_float_kernel(self) && !complex) return false;
  check_pairs("col2im", {size, kernel, dilation, padding, stride});
  at::native::col2im_shape_check(self, Tensor(), size[0], size[1], kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 3;
  const int64_t channels = self.size(-2) / (kernel[0] * kernel[1]), images = batched ? self.size(0) : 1;
  c10::DimVector sizes{images, channels, size[0], size[1]};
  if (!batched) sizes.erase(sizes.begin());
  allocate_or_resize(out, sizes, self.options());
  if (complex) {
    const auto half = [&](const Tensor& part) { return at::col2im(part, size, kernel, dilation, padding, stride); };
    out.copy_(at::complex(half(at::real(self)), half(at::imag(self))));
    return true;
  }
  const FoldParams p = fold_params(size, kernel, dilation, padding, stride);
  const Tensor result = out.is_contiguous() ? out : at::empty(sizes, out.options());
  fold(result, self.contiguous(), images * channels, p);
  if (!result.is_same(out)) out.copy_(result);
  return true;
}

// Dimension `dim` of `grad` is the index of the window. An additional last dimension is the index within the window.
std::optional<Tensor> unfold_backward(const Tensor& grad, IntArrayRef sizes, int64_t dim, int64_t size, int64_t step) {
  const bool complex = grad.scalar_type() == at::kComplexFloat && is_plain(grad);
  if (!has_float_kernel(grad) && !complex) return std::nullopt;
  if (sizes.empty()) return grad.sum();  // a 0-dim tensor has one window with at most one element
  if (complex)
    return at::complex(at::unfold_backward(at::real(grad), sizes, dim, size, step),
                       at::unfold_backward(at::imag(grad), sizes, dim, size, step));
  if (grad.numel() == 0) return at::zeros(sizes, grad.options());
  if (dim < 0) dim += int64_t(sizes.size());
  static const KernelSet kernels("unfold_bwd");
  const Tensor windows = grad.movedim(dim, -2).contiguous();
  c10::DimVector moved(windows.sizes().begin(), windows.sizes().end() - 2);
  moved.push_back(sizes[size_t(dim)]);
  const Tensor out = at::empty(moved, grad.options());
  FoldParams p{};
  p.width = narrow(moved.back());
  p.windows_w = narrow(windows.size(-2));
  p.kernel_w = narrow(size);
  p.stride_w = narrow(step);
  Launch(kernels.get(tag_of(out)))
      .outputs(out)
      .inputs(windows)
      .bytes(p)
      .threads(uint64_t(p.width), uint64_t(out.numel() / p.width))
      .work(1 + uint64_t(size) / uint64_t(step))
      .run();
  return out.movedim(-1, dim).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"im2col", &im2col>(m);
  op<"col2im", &col2im>(m);
  op<"unfold_backward", &unfold_backward>(m);
}

}  // namespace mpsx::ops
