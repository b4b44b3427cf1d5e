// Launches the binary operators in the tables (binary.def, compare.def, special.def), and binary operators that must
// inspect their arguments first.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

// COMMON uses the common dtype of the operands. FLOATING also converts integers to float. COMPARISON uses the common
// dtype and returns bool. SAME requires that both operands have the same dtype.
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

// Returns the dtype for the computation, or Undefined if no kernel supports it or the devices do not match.
at::ScalarType binary_compute_type(const BinaryRow&, const ElementwiseKernels&, const Tensor& a, const Tensor& b);

// Writes to `out`, or to a new tensor if `out` is undefined. Returns false if the result's dtype is not that of `out`.
bool run_binary(const BinaryRow&, const ElementwiseKernels&, at::ScalarType compute_type, const Tensor& a,
                const Tensor& b, const ScalarParams&, Tensor& out);

}  // namespace mpsx::ops
