// Shared by operators that return values and where they were found.
#pragma once

#include <ATen/MemoryOverlap.h>

#include "ops/operator.h"

namespace mpsx::ops {

// Refuses results in a part of the memory of x.
inline void check_apart(const Tensor& x, const Tensor& first, const Tensor& second) {
  for (const Tensor* out : {&first, &second})
    if (out->defined()) at::assert_no_partial_overlap(*out, x);
}

// Refuses out= tensors of other types than x's and int64, in PyTorch's words, or in the memory of x.
inline void check_selected(const char* name, const Tensor& x, const Tensor& values, const Tensor& indices) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK(accepts(values, type), name, ": expected scalar type ", type, " but got ", values.scalar_type(),
              " for values");
  TORCH_CHECK(accepts(indices, at::kLong), name, ": expected scalar type Long but got ", indices.scalar_type(),
              " for indices");
  check_apart(x, values, indices);
}

}  // namespace mpsx::ops
