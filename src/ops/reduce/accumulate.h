// Reductions whose result may have another type than the input.
#pragma once

#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {

// The mask of `dims`; none given means all dimensions.
DimMask mask_of(at::OptionalIntArrayRef dims, const Tensor& x);

// Reduces `x` into `out`, which kernels write as `type`. `init` is the result of an empty reduction. Always returns
// true.
bool reduce_to(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, at::ScalarType type,
               const at::Scalar& init, Tensor& out, Tag second = Tag::none, float p = 0);

// Sums, products, means and norms with a result of `type`. Integers accumulate in long. Returns false without a kernel.
bool accumulate(const ReduceKernels& kernels, const Tensor& input, DimMask mask, bool keepdim, at::ScalarType type,
                double init, Tensor& out, float p = 0);

}  // namespace mpsx::ops
