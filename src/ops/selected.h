// Shared by operators that return values and where they were found.
#pragma once

#include "ops/operator.h"

namespace mpsx::ops {

// Refuses out= tensors of other types than `type` and int64, in PyTorch's words.
inline void check_selected(const char* name, at::ScalarType type, const Tensor& values, const Tensor& indices) {
  TORCH_CHECK(takes(values, type), name, ": expected scalar type ", type, " but got ", values.scalar_type(),
              " for values");
  TORCH_CHECK(takes(indices, at::kLong), name, ": expected scalar type Long but got ", indices.scalar_type(),
              " for indices");
}

}  // namespace mpsx::ops
