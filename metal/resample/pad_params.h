#pragma once

#include "lib/types.h"

enum : int32_t { kPadTile = 16, kPadRun = 8 };  // adjacent elements per thread, and per step

// Dimensions in memory order, innermost first. `before`: the number of elements to add before the input, or to crop
// from it if negative.
struct PadParams {
  int32_t in[4], out[4], before[4];
  uint32_t reflects;  // otherwise replicates the border element
  uint32_t volumes;  // whether there are more than two dimensions
};
