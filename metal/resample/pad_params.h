#pragma once

#include "lib/types.h"

enum : int32_t { kPadTile = 16, kPadRun = 8 };  // adjacent elements per thread; elements per step of its loop

// Dimensions are in memory order, innermost first. `before`: number of elements to insert before the input, or to crop
// if negative.
struct PadParams {
  int32_t in[4], out[4], before[4];
  uint32_t reflects;  // reflection if nonzero, otherwise replication
  uint32_t volumes;   // whether there are more than two dimensions
};
