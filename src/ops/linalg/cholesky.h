// Systems solved with a Cholesky factor.
#pragma once

#include "ops/op.h"

namespace mpsx::ops::linalg {

// Solves A X = b over b, from the factor of A; both have three dimensions.
void solve_with_cholesky(const Tensor& factor, const Tensor& b, bool upper);

}  // namespace mpsx::ops::linalg
