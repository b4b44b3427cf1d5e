// Launching an operator of three tensors.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// A tensor on this device, or a 0-dim one on the CPU, which is passed by value.
bool is_operand(const Tensor& t);

// Operands a, b and c, brought to `type` (but for a, where it is a condition), into `out`, or a new tensor where that
// is undefined. False: `out` has another type.
bool run_ternary(const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a, Tensor b, const Tensor& c,
                 const ScalarParams& s, Tensor& out, bool condition = false);

}  // namespace mpsx::ops
