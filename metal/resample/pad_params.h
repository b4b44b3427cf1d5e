#pragma once

#include "lib/shared.h"

enum : int32_t { kPadTile = 16, kPadRun = 8 };  // neighbouring elements that a thread moves, and at once

// Dimensions as they lie in memory, innermost first. `before`: how many elements are put before the input's, or, if
// negative, are left out of them.
struct PadParams {
  int32_t in[4], out[4], before[4];
  uint32_t reflects;  // otherwise the element at the border is repeated
  uint32_t volumes;   // whether there are more dimensions than two
};
