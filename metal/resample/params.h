#pragma once

#include "lib/shared.h"

// Neighbouring elements that a CPU thread handles; a GPU's handles one.
enum : int32_t { kResampleTile = 64 };

// A dimension of `in` elements becomes one of `out`, each a sum of some with weights. `inner`: elements of the
// dimensions within it. The taps of element i are those from starts[i] to starts[i + 1].
struct ResampleParams {
  uint32_t in, out, inner;
};
