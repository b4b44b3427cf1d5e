// Solves systems with a Cholesky factor.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::linalg {

// Solves A X = B given the factor of A, overwriting `b` with X. Both tensors are 3-D.
void solve_with_cholesky(const Tensor& factor, const Tensor& b, bool upper);

}  // namespace mpsx::ops::linalg
