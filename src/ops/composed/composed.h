// What operators that are made of others share.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>

#include "ops/op.h"

namespace mpsx::ops {

// Whether elementwise operators and reductions have kernels for its type.
inline bool has_all_kernels(const Tensor& t) {
  const Tag tag = tag_of(t);
  return is_plain(t) && tag != Tag::none && tag != Tag::c64;
}

// What vectors of these norms are multiplied with, so that none is longer than `longest`.
inline Tensor shortening(const Tensor& norms, double longest) {
  constexpr double kLeast = 1e-7;  // PyTorch's own, so that no norm is divided by zero
  return at::where(norms > longest, longest / (norms + kLeast), at::ones({}, norms.options()));
}

}  // namespace mpsx::ops
