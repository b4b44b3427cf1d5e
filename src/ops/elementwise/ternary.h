// Launching an operator of three tensors.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// Whether `t` is on this device, or a 0-dim CPU tensor, which is passed by value.
bool is_operand(const Tensor& t);

// Runs on operands a, b and c, cast to `type` (except a condition a), into `out` or a new tensor. Returns false if
// `out` has another dtype.
bool run_ternary(const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a, Tensor b, const Tensor& c,
                 const ScalarParams& s, Tensor& out, bool condition = false);

}  // namespace mpsx::ops
