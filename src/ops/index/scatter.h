// Scatter with a deterministic order.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

enum class Scatter : uint8_t { set, add, prod, amax, amin };

// The operands of a scatter, with one stride per dimension of the index.
struct ScatterOperands {
  Tensor self;    // output
  Tensor index;   // 64 bits; expanded if one index serves many rows
  Tensor source;  // has self's dtype and at least the index's shape, or is a single element (`value`)
  bool value = false;
};

// self[…][index[…]][…] = (or op=) source[…], along `dim`; the index has been checked. Returns false without a kernel.
bool scatter_along(Scatter op, const ScatterOperands& operands, int64_t dim, bool negative);

}  // namespace mpsx::ops
