// Fourier transforms of one dimension.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::fft {

// `length` points, which the input has in full, or by its first half if it is Hermitian. The output has all of them or
// the first ones.
struct Transform {
  int64_t length;
  bool inverse;
  bool hermitian;
  double scale;
};

// Transforms dimension `dim` of `in` to `out`, whose other sizes are the same: complex to complex, real to complex, or
// complex to real, float32. `in` and `out` may be one tensor.
void transform(const Tensor& in, const Tensor& out, int64_t dim, const Transform& t);

}  // namespace mpsx::ops::fft
