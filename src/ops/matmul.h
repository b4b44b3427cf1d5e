// Matrix products by kernels, for operators that are made of them.
#pragma once

#include <optional>

#include "matmul/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// What happens to a product of matrices: activation(alpha * a b + beta * c).
struct ProductEnd {
  at::Scalar alpha = 1, beta = 0;
  Tensor c;  // broadcast to the result; not read where beta is zero
  uint32_t activation = kActivationNone;
};

// out = a b, of matrices or batches of them of any strides, all of one type that has kernels. `out` has its size.
void matrix_product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductEnd& end = {});

}  // namespace mpsx::ops
