// Solves systems with a Cholesky factor.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::linalg {

// Solves A X = b in place in b, given the factor of A. Both tensors are 3-D.
void solve_with_cholesky(const Tensor& factor, const Tensor& b, bool upper);

}  // namespace mpsx::ops::linalg
