// Fractional max pooling, which uses different random windows for each plane, and max_unpool, which scatters values to
// the indices that max pooling has returned.
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "ops/operator.h"
#include "ops/pool/window_pool.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

// Returns the distance between windows, (in - size) / (windows - 1). Like PyTorch, rounds it to the dtype, because this
// affects the positions of the windows.
double spacing(at::ScalarType type, int64_t in, int64_t size, int64_t windows) {
  const auto ratio = [&]<typename T>(T) { return double(T(float(in - size)) / T(float(windows - 1))); };
  if (type == at::kHalf) return ratio(c10::Half());
  if (type == at::kBFloat16) return ratio(c10::BFloat16());
  return ratio(float());
}

// Returns the starts of the windows along one dimension, for every plane. `samples` has one number per plane.
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

// Checks the arguments and returns the shape of the output.
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
    // For 3-D pooling, PyTorch requires one more element.
    TORCH_CHECK(size[d] > 0 && kernel[d] > 0 && size[d] + kernel[d] - 1 + (D == 3) <= n, name, "(): pool size ",
                kernel[d], " too large relative to input size ", n, " for ", size[d], " windows");
    n = size[d];
  }
  return sizes;
}

template <size_t D>
bool fractional(const Tensor& self, IntArrayRef kernel, IntArrayRef size, const Tensor& samples, Tensor& out,
                Tensor& indices) {
  if (!has_float_kernel(self) || !is_plain(samples)) return false;
  const c10::DimVector sizes = shape_of<D>(self, kernel, size);
  check_drawn(self, samples, D);
  allocate_or_resize(out, sizes, self.options());
  allocate_or_resize(indices, sizes, self.options().dtype(at::kLong));
  if (out.numel() == 0) return true;
  Windows w(self.sizes(), sizes, D);
  const int64_t images = self.dim() == int64_t(D) + 2 ? self.size(0) : 1;
  const Tensor drawn = samples.slice(0, 0, images).reshape({-1, int64_t(D)});
  std::vector<Tensor> begins, ends;
  if (D == 2) {  // the third dimension has a single window
    begins.push_back(at::zeros({drawn.size(0), 1}, drawn.options().dtype(at::kInt)));
    ends.push_back(begins[0].add(1));
  }
  for (size_t d = 0; d < D; ++d) {
    const int64_t sample = D == 2 ? 1 - int64_t(d) : int64_t(d);  // in 2-D, samples start with the innermost dimension
    begins.push_back(starts(drawn.slice(1, sample, sample + 1), w.p.in[3 - D + d], kernel[d], w.p.out[3 - D + d]));
    ends.push_back(begins.back().add(kernel[d]));
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  Tensor tables = at::cat(begins, 1);
  w.p.table = pool_size(tables.size(1));
  w.table = LaunchTable(std::move(tables));
  window_max(self, w, out, indices);
  return true;
}
template <size_t D>
bool fractional_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef size,
                         const Tensor& indices, Tensor& grad_input) {
  if (!has_float_kernel(grad)) return false;
  TORCH_CHECK(grad.sizes() == shape_of<D>(self, kernel, size) && indices.sizes() == grad.sizes(),
              "fractional_max_pool_backward: expected a gradient and indices of the result's shape, got ", grad.sizes(),
              " and ", indices.sizes());
  allocate_or_resize(grad_input, self.sizes(), grad.options());
  scatter_grad("fractional_max_pool", grad, indices, grad_input, D, false);
  return true;
}

template <size_t D>
bool unpool(const Tensor& self, const Tensor& indices, IntArrayRef size, Tensor& out) {
  if (!has_float_kernel(self) || !is_plain(indices)) return false;
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
  allocate_or_resize_pooled(out, sizes, self.options(),
                            D == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
  if (out.numel() == 0 || self.numel() == 0) return out.zero_(), true;
  const Tensor result = out.is_contiguous() ? out : at::empty(sizes, out.options());
  result.zero_();
  planes_as_rows(result, D).scatter_(1, planes_as_rows(indices, D), planes_as_rows(self, D));
  if (!result.is_same(out)) out.copy_(result);
  return true;
}
bool unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride, IntArrayRef padding,
              Tensor& out) {
  TORCH_CHECK(stride.size() == 3 && padding.size() == 3,
              "max_unpool3d: expected three elements in stride and in padding, got ", stride, " and ", padding);
  TORCH_CHECK(std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s > 0; }),
              "strides should be greater than zero, but got stride: ", stride);
  return unpool<3>(self, indices, size, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"fractional_max_pool2d", &fractional<2>>(m);
  op<"fractional_max_pool2d_backward", &fractional_backward<2>>(m);
  op<"fractional_max_pool3d", &fractional<3>>(m);
  op<"fractional_max_pool3d_backward", &fractional_backward<3>>(m);
  op<"max_unpool2d", &unpool<2>>(m);
  op<"max_unpool3d", &unpool3d>(m);
}

}  // namespace mpsx::ops
