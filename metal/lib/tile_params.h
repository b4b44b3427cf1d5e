// How a matrix product is cut into tiles; shared with launchers.
#pragma once

#include "lib/shared.h"

enum : uint32_t {
  // Where SIMD groups multiply 8x8 blocks: a threadgroup of four owns a tile, each of them a quarter.
  kTileThreads = 128,
  kTileRows = 64,
  kTileColumns = 64,
  kTileDepth = 16,  // of the slices of both factors that are in threadgroup memory at a time
  kTilePad = 4,     // floats between rows, so that a column is not in one bank
  kTileFloats = kTileRows * (kTileColumns + kTilePad),
  // Where a threadgroup is one thread: a tile as large as the launcher says, up to these, in blocks of registers.
  kWideRows = 128,
  kWideColumns = 256,
  kWideDepth = 128,
  kWideRowStep = 4,
  kWideColumnStep = 32,
  kWidePad = 16,
};
