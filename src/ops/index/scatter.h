// Deterministic scatter.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

enum class Scatter : uint8_t { set, add, prod, amax, amin };

// The operands of a scatter. Each has one stride per dimension of the index.
struct ScatterOperands {
  Tensor self;    // output
  Tensor index;   // int64; expanded if one index applies to many rows
  Tensor source;  // has self's dtype and at least the index's size in every dimension, or is a single element (`value`)
  bool value = false;
};

// Computes self[…][index[…]][…] = (or op=) source[…] along `dim`. The caller has checked the index. Returns false if no
// kernel supports the operation.
bool scatter_along(Scatter op, const ScatterOperands& operands, int64_t dim, bool negative);

}  // namespace mpsx::ops
