// One-dimensional Fourier transforms.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::fft {

// A transform of `length` points. A Hermitian input contains only its first half. The output has all points or the
// first ones.
struct Transform {
  int64_t length;
  bool inverse;
  bool hermitian;
  double scale;
};

// Transforms dimension `dim` of `in` into `out`, whose other sizes are equal: complex to complex, real to complex, or
// complex to real, in float32. `in` and `out` may be the same tensor.
void transform(const Tensor& in, const Tensor& out, int64_t dim, const Transform& t);

}  // namespace mpsx::ops::fft
