// Reducing into a result of a type that may differ from the input's.
#pragma once

#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {

// No dimensions: all of them.
DimMask mask_of(at::OptionalIntArrayRef dims, const Tensor& x);

// Reduces `x` into `out`, which kernels write as `type`. `identity`: the result where nothing is reduced. Always true.
bool reduce_to(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, at::ScalarType type,
               const at::Scalar& identity, Tensor& out, Tag second = Tag::none, float p = 0);

// For sums, products, means and norms, whose result has `type`. Integers add up in long. False: no kernel.
bool accumulate(const ReduceKernels& kernels, const Tensor& input, DimMask mask, bool keepdim, at::ScalarType type,
                double identity, Tensor& out, float p = 0);

}  // namespace mpsx::ops
