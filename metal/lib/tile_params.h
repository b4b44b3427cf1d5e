// How a matrix product is cut into tiles; shared with launchers.
#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kTileRows = 64,  // of a tile that four SIMD groups own, each of them a quarter
  kTileColumns = 64,
  kTileThreads = 128,
  kLargeTile = 128,  // rows and columns of one that eight own; of 16-bit elements
  kLargeTileThreads = 256,
  kTileBytes = 64,  // depth of the slices of both factors that are in threadgroup memory at a time
};
