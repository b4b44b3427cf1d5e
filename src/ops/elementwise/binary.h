// Launching a binary operator, shared by the tables (binary.def, compare.def, special.def) and by operators that
// inspect their arguments first.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// COMMON: the operands' common dtype; FLOATING: integers become float; COMPARISON: the common dtype, with a bool
// output; SAME: both operands must have one dtype.
enum class Promotion : uint8_t { COMMON, FLOATING, COMPARISON, SAME };

struct BinaryRow {
  const char* name;
  const char* overload;
  Types types;
  Promotion promotion;
  ElementwiseKernels::Order order;
  ElementwiseKernels::Number number = ElementwiseKernels::Number::ROUNDED;

  ElementwiseKernels kernels() const { return ElementwiseKernels(name, 2, order, number); }
};

// The dtype in which both operands are computed; Undefined if it has no kernel or the devices do not match.
at::ScalarType binary_compute_type(const BinaryRow&, const ElementwiseKernels&, const Tensor& a, const Tensor& b);

// Runs into `out`, or into a new tensor if it is undefined. Returns false if `out` has another dtype than the result.
bool run_binary(const BinaryRow&, const ElementwiseKernels&, at::ScalarType compute_type, const Tensor& a,
                const Tensor& b, const ScalarParams&, Tensor& out);

}  // namespace mpsx::ops
