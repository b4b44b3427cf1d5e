// How a matrix product is cut into tiles; shared with launchers.
#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kTileThreads = 128,  // four SIMD groups own a tile, each of them a quarter
  kTileRows = 64,
  kTileColumns = 64,
  kTileDepth = 16,  // of the slices of both factors that are in threadgroup memory at a time
  kTilePad = 4,     // floats between rows, so that a column is not in one bank
  kTileStride = kTileColumns + kTilePad,
  kTileFloats = kTileRows * kTileStride,
};
