#pragma once

#include "lib/types.h"

enum : int32_t { kPadTile = 16, kPadRun = 8 };  // adjacent elements per thread; elements per step of its loop

// Dimensions are in memory order, innermost first. `before` is the number of elements to insert before the input. If it
// is negative, the input is cropped.
struct PadParams {
  int32_t in[4], out[4], before[4];
  uint32_t reflects;  // nonzero: reflection; zero: replication
  uint32_t volumes;   // whether there are more than two dimensions
};
