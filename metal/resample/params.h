#pragma once

#include "lib/types.h"

// Number of adjacent elements per thread of resample_planes: 16 bytes of half or 32 bytes of float.
enum : uint32_t { kResampleTile = 8 };

// Resizes a dimension from `in` to `out` elements. `inner` is the number of elements in the dimensions inside it.
// Output element i is a weighted sum of taps [starts[i], starts[i + 1]).
struct ResampleParams {
  uint32_t in, out, inner;
};
