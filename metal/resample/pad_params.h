#pragma once

#include "lib/shared.h"

enum : int32_t { kPadTile = 16 };  // neighbouring elements that a thread moves

// Dimensions as they lie in memory, innermost first. `before`: how many elements are put before the input's, or, if
// negative, are left out of them.
struct PadParams {
  int32_t in[4], out[4], before[4];
  uint32_t reflects;  // otherwise the element at the border is repeated
};
