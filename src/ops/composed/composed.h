// Shared by operators that are composed of others.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>

#include "ops/op.h"

namespace mpsx::ops {

// Factors that make vectors of these norms no longer than `longest`.
inline Tensor shortening(const Tensor& norms, double longest) {
  constexpr double kLeast = 1e-7;  // PyTorch's own, so that no norm is divided by zero
  return at::where(norms > longest, longest / (norms + kLeast), at::ones({}, norms.options()));
}

}  // namespace mpsx::ops
