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

// Whether one thread of a CPU adds `count` halves up in float32 on its own: the places of `self` are few, so that their
// sums stay in its cache.
inline bool adds_few(const Tensor& self, int64_t count) {
  return (self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16) && self.is_contiguous() &&
         self.numel() <= int64_t(kFewPlaces) && count <= 4096 * int64_t(kFewPlaces) &&
         runtime::driver().info().vector_bytes == 0;
}

// self[…][index[…]][…] = (or op=) source[…], the index along `dim`; it has been checked. False: no kernel for the type.
bool scatter_along(Scatter op, const ScatterOperands& operands, int64_t dim, bool negative);

}  // namespace mpsx::ops
