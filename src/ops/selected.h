// Helpers for operators that return values and their indices.
#pragma once

#include <ATen/MemoryOverlap.h>

#include "ops/operator.h"

namespace mpsx::ops {

// Throws if x and an output partially overlap.
inline void assert_no_partial_overlap(const Tensor& x, const Tensor& first, const Tensor& second) {
  for (const Tensor* out : {&first, &second})
    if (out->defined()) at::assert_no_partial_overlap(*out, x);
}

// Throws PyTorch's error unless the outputs have x's dtype and int64, respectively, and do not overlap x.
inline void check_selected(const char* name, const Tensor& x, const Tensor& values, const Tensor& indices) {
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK(accepts(values, type), name, ": expected scalar type ", type, " but got ", values.scalar_type(),
              " for values");
  TORCH_CHECK(accepts(indices, at::kLong), name, ": expected scalar type Long but got ", indices.scalar_type(),
              " for indices");
  assert_no_partial_overlap(x, values, indices);
}

}  // namespace mpsx::ops
