// Fractional pooling, whose windows are drawn for each plane, and max_unpool, which is a write along the indices.
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/pool/window_pool.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using Pair = std::tuple<Tensor, Tensor>;

// (in - size) / (windows - 1), rounded as the type is: where the windows lie depends on it.
double spacing(at::ScalarType type, int64_t in, int64_t size, int64_t windows) {
  const auto ratio = [&]<typename T>(T) { return double(T(float(in - size)) / T(float(windows - 1))); };
  if (type == at::kHalf) return ratio(c10::Half());
  if (type == at::kBFloat16) return ratio(c10::BFloat16());
  return ratio(float());
}

// Where the windows of one dimension begin, for every plane; `samples` has one number a plane.
Tensor starts(const Tensor& samples, int64_t in, int64_t size, int64_t windows) {
  const Tensor last = at::full({samples.size(0), 1}, in - size, samples.options().dtype(at::kInt));
  if (windows <= 1) return windows == 1 ? last : last.slice(1, 0, 0);
  const double alpha = spacing(samples.scalar_type(), in, size, windows);
  const Tensor moved = at::arange(windows - 1, samples.options()).add(samples);
  const Tensor from = moved.mul(alpha).to(at::kInt).sub_(samples.mul(alpha).to(at::kInt));
  return at::cat({from, last}, 1);
}

void check_drawn(const Tensor& self, const Tensor& samples, size_t dims) {
  if (dims == 2)
    at::native::fractional_max_pool_check_shape<2>(self, samples);
  else
    at::native::fractional_max_pool_check_shape<3>(self, samples);
}

// The shape of the result, checked.
template <size_t D>
c10::DimVector shape_of(const Tensor& self, IntArrayRef kernel, IntArrayRef size) {
  static const std::string name = "fractional_max_pool" + std::to_string(D) + "d";
  TORCH_CHECK(kernel.size() == D, name, "(): kernel_size must either be a single Int or tuple of ", D, " Ints");
  TORCH_CHECK(size.size() == D, name, "(): output_size must either be a single Int or tuple of ", D, " Ints");
  TORCH_CHECK(self.dim() == int64_t(D) + 1 || self.dim() == int64_t(D) + 2, name, "(): Expected ", D + 1, "D or ",
              D + 2, "D tensor, but got: ", self.sizes());
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    TORCH_CHECK(sizes[d] > 0 || (d == 0 && sizes.size() == D + 2), name,
                "(): Expected input to have non-zero size for non-batch dimensions, but got ", self.sizes());
  for (size_t d = 0; d < D; ++d) {
    int64_t& n = sizes[sizes.size() - D + d];
    // In three dimensions PyTorch asks for one element more.
    TORCH_CHECK(size[d] > 0 && kernel[d] > 0 && size[d] + kernel[d] - 1 + (D == 3) <= n, name, "(): pool size ",
                kernel[d], " too large relative to input size ", n, " for ", size[d], " windows");
    n = size[d];
  }
  return sizes;
}

template <size_t D>
std::tuple<Tensor&, Tensor&> fractional_out(const Tensor& self, IntArrayRef kernel, IntArrayRef size,
                                            const Tensor& samples, Tensor& out, Tensor& indices) {
  if (!has_float_kernel(self) || !is_plain(samples) || !is_plain(out) || !is_plain(indices) ||
      out.scalar_type() != self.scalar_type() || indices.scalar_type() != at::kLong) {
    fallback_call<Pair>(D == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d", "output", self, kernel,
                        size, samples, out, indices);
    return {out, indices};
  }
  const c10::DimVector sizes = shape_of<D>(self, kernel, size);
  check_drawn(self, samples, D);
  at::native::resize_output(out, sizes);
  at::native::resize_output(indices, sizes);
  if (out.numel() == 0) return {out, indices};
  Windows w(self.sizes(), sizes, D);
  const int64_t images = self.dim() == int64_t(D) + 2 ? self.size(0) : 1;
  const Tensor drawn = samples.slice(0, 0, images).reshape({-1, int64_t(D)});
  std::vector<Tensor> begins, ends;
  if (D == 2) {  // the third dimension is one window
    begins.push_back(at::zeros({drawn.size(0), 1}, drawn.options().dtype(at::kInt)));
    ends.push_back(begins[0].add(1));
  }
  for (size_t d = 0; d < D; ++d) {
    const int64_t sample = D == 2 ? 1 - int64_t(d) : int64_t(d);  // in two dimensions the innermost one's is first
    begins.push_back(starts(drawn.slice(1, sample, sample + 1), w.p.in[3 - D + d], kernel[d], w.p.out[3 - D + d]));
    ends.push_back(begins.back().add(kernel[d]));
  }
  w.widest(kernel[D - 1]);
  begins.insert(begins.end(), ends.begin(), ends.end());
  Tensor tables = at::cat(begins, 1);
  w.p.table = pool_size(tables.size(1));
  w.table = LaunchTable(std::move(tables));
  window_max(self, w, out, indices);
  return {out, indices};
}
template <size_t D>
Pair fractional(const Tensor& self, IntArrayRef kernel, IntArrayRef size, const Tensor& samples) {
  Tensor out = at::empty({0}, self.options()), indices = at::empty({0}, self.options().dtype(at::kLong));
  fractional_out<D>(self, kernel, size, samples, out, indices);
  return {out, indices};
}
template <size_t D>
Tensor& fractional_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef size,
                                const Tensor& indices, Tensor& grad_input) {
  if (!has_float_kernel(grad) || !is_plain(grad_input) || grad_input.scalar_type() != grad.scalar_type())
    return fallback_call<Tensor>(
               D == 2 ? "aten::fractional_max_pool2d_backward" : "aten::fractional_max_pool3d_backward", "grad_input",
               grad, self, kernel, size, indices, grad_input),
           grad_input;
  TORCH_CHECK(grad.sizes() == shape_of<D>(self, kernel, size) && indices.sizes() == grad.sizes(),
              "fractional_max_pool_backward: expected a gradient and indices of the result's shape, got ", grad.sizes(),
              " and ", indices.sizes());
  at::native::resize_output(grad_input, self.sizes());
  spread_gradient("fractional_max_pool", grad, indices, grad_input, D, false);
  return grad_input;
}
template <size_t D>
Tensor fractional_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef size,
                           const Tensor& indices) {
  Tensor grad_input = at::empty({0}, self.options());
  return fractional_backward_out<D>(grad, self, kernel, size, indices, grad_input);
}

template <size_t D>
void unpool(const Tensor& self, const Tensor& indices, IntArrayRef size, Tensor& out) {
  static const std::string name = "max_unpool" + std::to_string(D) + "d";
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(size.size() == D, "There should be exactly ", D, " elements in output_size, but got ", size.size(),
              " elements.");
  TORCH_CHECK(self.dim() == int64_t(D) + 1 || self.dim() == int64_t(D) + 2, "Input to ", name, " should be a ", D + 1,
              "d or ", D + 2, "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    TORCH_CHECK(sizes[d] > 0 || (d == 0 && sizes.size() == D + 2), name,
                "(): Expected input to have non-zero size for non-batch dimensions, but got ", self.sizes());
  std::copy(size.begin(), size.end(), sizes.end() - D);
  const auto format = D == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  if (at::native::resize_output(out, sizes)) out.unsafeGetTensorImpl()->empty_tensor_restride(format);
  if (out.numel() == 0 || self.numel() == 0) {
    out.zero_();
    return;
  }
  const Tensor result = out.is_contiguous() ? out : at::empty(sizes, out.options());
  result.zero_();
  planes_as_rows(result, D).scatter_(1, planes_as_rows(indices, D), planes_as_rows(self, D));
  if (!result.is_same(out)) out.copy_(result);
}
bool unpools(const Tensor& self, const Tensor& indices, const Tensor& out) {
  return has_float_kernel(self) && is_plain(indices) && is_plain(out) && out.scalar_type() == self.scalar_type();
}

Tensor& max_unpool2d_out(const Tensor& self, const Tensor& indices, IntArrayRef size, Tensor& out) {
  if (!unpools(self, indices, out))
    return fallback_call<Tensor>("aten::max_unpool2d", "out", self, indices, size, out), out;
  unpool<2>(self, indices, size, out);
  return out;
}
Tensor max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef size) {
  Tensor out = at::empty({0}, self.options());
  return max_unpool2d_out(self, indices, size, out);
}
Tensor& max_unpool3d_out(const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride,
                         IntArrayRef padding, Tensor& out) {
  if (!unpools(self, indices, out))
    return fallback_call<Tensor>("aten::max_unpool3d", "out", self, indices, size, stride, padding, out), out;
  TORCH_CHECK(stride.size() == 3 && padding.size() == 3,
              "max_unpool3d: expected three elements in stride and in padding, got ", stride, " and ", padding);
  TORCH_CHECK(std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s > 0; }),
              "strides should be greater than zero, but got stride: ", stride);
  unpool<3>(self, indices, size, out);
  return out;
}
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride,
                    IntArrayRef padding) {
  Tensor out = at::empty({0}, self.options());
  return max_unpool3d_out(self, indices, size, stride, padding, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fractional_max_pool2d", &fractional<2>);
  m.impl("fractional_max_pool2d.output", &fractional_out<2>);
  m.impl("fractional_max_pool2d_backward", &fractional_backward<2>);
  m.impl("fractional_max_pool2d_backward.grad_input", &fractional_backward_out<2>);
  m.impl("fractional_max_pool3d", &fractional<3>);
  m.impl("fractional_max_pool3d.output", &fractional_out<3>);
  m.impl("fractional_max_pool3d_backward", &fractional_backward<3>);
  m.impl("fractional_max_pool3d_backward.grad_input", &fractional_backward_out<3>);
  m.impl("max_unpool2d", &max_unpool2d);
  m.impl("max_unpool2d.out", &max_unpool2d_out);
  m.impl("max_unpool3d", &max_unpool3d);
  m.impl("max_unpool3d.out", &max_unpool3d_out);
}

}  // namespace mpsx::ops
