// Launches operators with three tensor arguments.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// Returns whether `t` is on this device, or is a 0-dim CPU tensor, which is passed by value.
bool is_operand(const Tensor& t);

// Runs the kernels on operands a, b and c, which are cast to `type` (except `a`, if it is a condition). Writes to `out`
// or to a new tensor. Returns false if `out` has a different dtype.
bool run_ternary(const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a, Tensor b, const Tensor& c,
                 const ScalarParams& s, Tensor& out, bool condition = false);

}  // namespace mpsx::ops
