// Scatters with deterministic results.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

enum class Scatter : uint8_t { set, add, prod, amax, amin };

// The operands of a scatter. Each of them has one stride for each dimension of the index.
struct ScatterOperands {
  Tensor self;    // output
  Tensor index;   // int64; expanded if many rows use the same index
  Tensor source;  // has self's dtype; at least as large as the index in every dimension, or a single element (`value`)
  bool value = false;
};

// Computes self[…][index[…]][…] = (or op=) source[…], where `dim` is the indexed dimension. The caller must have
// checked the index. Returns false if no kernel supports the operation.
bool scatter_along(Scatter op, const ScatterOperands& operands, int64_t dim, bool negative);

}  // namespace mpsx::ops
