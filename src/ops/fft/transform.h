// One-dimensional Fourier transforms.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::fft {

// A transform of `length` points. If the input is Hermitian-symmetric, it contains only the first half of the points.
// The output contains all points, or only the first few.
struct Transform {
  int64_t length;
  bool inverse;
  bool hermitian;
  double scale;
};

// Transforms dimension `dim` of `in` and writes to `out`, which must have the same sizes in all other dimensions.
// Supports complex to complex, real to complex, and complex to real, in float32. `in` and `out` may be the same tensor.
void transform(const Tensor& in, const Tensor& out, int64_t dim, const Transform& t);

}  // namespace mpsx::ops::fft
