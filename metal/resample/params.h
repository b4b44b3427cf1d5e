#pragma once

#include "lib/shared.h"

// Adjacent elements per thread of resample_planes, 16 bytes of halves or 32 of floats.
enum : uint32_t { kResampleTile = 8 };

// Resizes a dimension from `in` to `out` elements, each a weighted sum of a few. `inner`: the number of elements of the
// dimensions within it. Element i has the taps from starts[i] to starts[i + 1].
struct ResampleParams {
  uint32_t in, out, inner;
};
