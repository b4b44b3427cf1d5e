// Registers the Fourier transforms. They are computed one dimension at a time. On the host driver, MKL or PocketFFT
// runs these operators directly.
#include <ATen/Context.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SpectralOpsUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/fft/transform.h"
#include "ops/operator.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using fft::Transform;
using Dims = c10::SmallVector<int64_t, at::kDimVectorStaticSize>;

bool has_kernel(const Tensor& t) {
  return is_plain(t) && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kComplexFloat);
}

Dims checked_dims(const char* op, const Tensor& self, at::IntArrayRef dim) {
  Dims dims(dim.begin(), dim.end());
  at::maybe_wrap_dims(dims, self.dim());
  for (const int64_t d : dims) {
    TORCH_CHECK(std::count(dims.begin(), dims.end(), d) == 1, op, ": expected different dimensions, got ", dim);
    TORCH_CHECK(self.size(d) > 0, op, ": expected dimension ", d, " to have elements, got ", self.sizes());
  }
  return dims;
}

double scale_of(int64_t points, int64_t normalization) {
  const auto mode = static_cast<at::native::fft_norm_mode>(normalization);
  if (mode == at::native::fft_norm_mode::by_root_n) return 1 / std::sqrt(double(points));
  return mode == at::native::fft_norm_mode::by_n ? 1 / double(points) : 1;
}

int64_t points_of(at::IntArrayRef sizes, at::IntArrayRef dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1), [&](int64_t n, int64_t d) { return n * sizes[d]; });
}

// Allocates an output with the strides that PyTorch's CPU and meta kernels use if PyTorch is built with MKL (_exec_fft
// in aten/src/ATen/native/mkl/SpectralOps.cpp). The transformed dimensions are innermost, and the batch dimensions are
// ordered by their strides.
Tensor make_output(const Tensor& self, at::IntArrayRef sizes, at::IntArrayRef dims, at::ScalarType type) {
  Dims order(self.dim());
  std::iota(order.begin(), order.end(), int64_t(0));
  const auto is_batch = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); };
  const auto batch_end = std::partition(order.begin(), order.end(), is_batch);
  std::sort(order.begin(), batch_end, [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  std::copy(dims.begin(), dims.end(), batch_end);
  Dims strides(self.dim());
  int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = stride;
    stride *= sizes[*d];
  }
  return at::empty_strided(sizes, strides, self.options().dtype(type));
}

void sort_by_stride(const Tensor& self, Dims& dims, size_t count) {
  std::sort(dims.begin(), dims.begin() + count, [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
}

// Transforms dimensions `dims` of `in`, starting with the last one. Writes to `out`, which has the same shape.
void transform_all(const Tensor& in, const Tensor& out, at::IntArrayRef dims, bool inverse, double scale) {
  const Tensor* from = &in;
  for (size_t i = dims.size(); i-- > 0;) {
    fft::transform(*from, out, dims[i], {out.size(dims[i]), inverse, false, i == 0 ? scale : 1.0});
    from = &out;
  }
}

Tensor c2c(const Tensor& self, Dims dims, bool inverse, double scale) {
  sort_by_stride(self, dims, dims.size());
  const Tensor result = make_output(self, self.sizes(), dims, at::kComplexFloat);
  transform_all(self, result, dims, inverse, scale);
  return result;
}

// As on the CPU, an empty `out` becomes contiguous, regardless of the strides of `result`.
bool write(const char* op, const Tensor& result, Tensor& out) {
  if (out.defined()) at::native::resize_output(out, result.sizes());
  return return_or_copy(op, result, out);
}

bool fft_c2c(const Tensor& self, c10::SymIntArrayRef dim, int64_t normalization, bool forward, Tensor& out) {
  if (!has_kernel(self)) return false;
  TORCH_CHECK(self.is_complex(), "Only supports complex dtypes, but found: ", self.scalar_type());
  if (dim.empty()) return write("_fft_c2c", self.clone(), out);
  const Dims dims = checked_dims("_fft_c2c", self, C10_AS_INTARRAYREF_SLOW(dim));
  return write("_fft_c2c", c2c(self, dims, !forward, scale_of(points_of(self.sizes(), dims), normalization)), out);
}

bool fft_r2c(const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided, Tensor& out) {
  if (!has_kernel(self)) return false;
  TORCH_CHECK(self.is_floating_point(), "Only supports floating-point dtypes, but found: ", self.scalar_type());
  Dims dims = checked_dims("_fft_r2c", self, dim);
  TORCH_CHECK(!dims.empty(), "_fft_r2c: expected at least one dimension");
  const int64_t last = dims.back(), length = self.size(last);
  const double scale = scale_of(points_of(self.sizes(), dims), normalization);
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (onesided) sizes[last] = length / 2 + 1;
  sort_by_stride(self, dims, dims.size() - 1);
  const Tensor result = at::hasMKL() ? make_output(self, sizes, dims, at::kComplexFloat)
                                     : at::empty(sizes, self.options().dtype(at::kComplexFloat));
  dims.pop_back();
  fft::transform(self, result, last, {length, false, false, dims.empty() ? scale : 1.0});
  transform_all(result, result, dims, false, scale);
  return write("_fft_r2c", result, out);
}

bool fft_c2r(const Tensor& self, at::IntArrayRef dim, int64_t normalization, c10::SymInt last_dim_size, Tensor& out) {
  if (!has_kernel(self)) return false;
  TORCH_CHECK(self.is_complex(), "Only supports complex dtypes, but found: ", self.scalar_type());
  Dims dims = checked_dims("_fft_c2r", self, dim);
  TORCH_CHECK(!dims.empty(), "_fft_c2r: expected at least one dimension");
  const int64_t last = dims.back(), length = last_dim_size.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(length > 0 && self.size(last) >= length / 2 + 1, "_fft_c2r: expected ", length / 2 + 1,
              " elements in dimension ", last, " for a result of ", length, ", got ", self.sizes());
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[last] = length;
  const double scale = scale_of(points_of(sizes, dims), normalization);
  dims.pop_back();
  const Tensor half = dims.empty() ? self : c2c(self, dims, true, 1);
  const Tensor result =
      at::hasMKL() ? make_output(half, sizes, {last}, at::kFloat) : at::empty(sizes, self.options().dtype(at::kFloat));
  fft::transform(half, result, last, {length, true, true, scale});
  return write("_fft_c2r", result, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kFft)
      .impl("_fft_c2c", functional_form("_fft_c2c", &fft_c2c))
      .impl("_fft_c2c.out", out_form("_fft_c2c", &fft_c2c))
      .impl("_fft_r2c", functional_form("_fft_r2c", &fft_r2c))
      .impl("_fft_r2c.out", out_form("_fft_r2c", &fft_r2c))
      .impl("_fft_c2r", functional_form("_fft_c2r", &fft_c2r))
      .impl("_fft_c2r.out", out_form("_fft_c2r", &fft_c2r));
}

}  // namespace mpsx::ops
