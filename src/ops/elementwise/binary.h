// Launching a binary operator, shared by the tables (binary.def, compare.def, special.def) and by operators that look
// at their arguments first.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// COMMON: the operands' common type; FLOATING: integers become float; COMPARISON: the common type, and a result of
// bools; SAME: both operands must have one type.
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

// The type both operands are brought to; Undefined when there is no kernel for it or the devices do not fit.
at::ScalarType binary_compute_type(const BinaryRow&, const ElementwiseKernels&, const Tensor& a, const Tensor& b);

// Into `out`, or a new tensor where it is undefined. False: `out` has another type than the result.
bool run_binary(const BinaryRow&, const ElementwiseKernels&, at::ScalarType compute_type, const Tensor& a,
                const Tensor& b, const ScalarParams&, Tensor& out);

}  // namespace mpsx::ops
