// Writing along an index, in order.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

enum class Scatter : uint8_t { set, add, prod, amax, amin };

// How the elements of self, the index and the source lie: one stride an index dimension.
struct ScatterOperands {
  Tensor self;    // written
  Tensor index;   // 64 bits; expanded where one index serves many lines
  Tensor source;  // of self's type and at least the index's shape; or one element for all (`value`)
  bool value = false;
};

// self[…][index[…]][…] = (or op=) source[…], the index along `dim`; it has been checked. False: no kernel for the type.
bool scatter_along(Scatter op, const ScatterOperands& operands, int64_t dim, bool negative);

}  // namespace mpsx::ops
