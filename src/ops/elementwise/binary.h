// Launching a binary operator, shared by the tables (binary.def, compare.def) and by operators with arguments of their
// own.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {

enum class Promotion : uint8_t { COMMON, FLOATING, COMPARISON };

struct BinaryRow {
  const char* name;
  const char* overload;
  Types types;
  Promotion promotion;
  ElementwiseKernels::Order order;
};

// The type both operands are brought to; Undefined when the row has no kernel for it or the devices do not fit.
at::ScalarType binary_compute_type(const BinaryRow&, const Tensor& a, const Tensor& b);

// Into `out`, or (undefined) into a new tensor. `type` comes from binary_compute_type.
Tensor run_binary(const BinaryRow&, const ElementwiseKernels&, at::ScalarType type, const Tensor& a, const Tensor& b,
                  const ScalarParams&, const Tensor& out);

// The same with out's own type and shape minded.
Tensor& run_binary_out(const BinaryRow&, const ElementwiseKernels&, at::ScalarType type, const Tensor& a,
                       const Tensor& b, const ScalarParams&, Tensor& out);

}  // namespace mpsx::ops
