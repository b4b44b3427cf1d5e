// Reductions whose result may have a different type than the input.
#pragma once

#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {

// Returns the mask of `dims`, or of all dimensions if `dims` is not given.
DimMask mask_of(at::OptionalIntArrayRef dims, const Tensor& x);

// Reduces `x` to `out`. Kernels write the result as `type`. `init` is the result of an empty reduction. Always returns
// true.
bool reduce_to(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, at::ScalarType type,
               const at::Scalar& init, Tensor& out, Tag second = Tag::none, float p = 0);

// Computes sums, products, means and norms, whose results have dtype `type`. Integers accumulate in int64. Returns
// false if no kernel supports the input.
bool accumulate(const ReduceKernels& kernels, const Tensor& input, DimMask mask, bool keepdim, at::ScalarType type,
                double init, Tensor& out, float p = 0);

}  // namespace mpsx::ops
