#pragma once

#include "lib/shared.h"

// Neighbouring elements that a thread of resample_planes handles, 16 bytes of halves or 32 of floats.
enum : uint32_t { kResampleTile = 8 };

// A dimension of `in` elements becomes one of `out`, each of which is a weighted sum of a few. `inner`: elements of the
// dimensions within it. The taps of element i are those from starts[i] to starts[i + 1].
struct ResampleParams {
  uint32_t in, out, inner;
};
