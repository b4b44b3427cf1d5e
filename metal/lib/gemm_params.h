// GEMM tile sizes, shared with launchers.
#pragma once

#include "lib/types.h"

enum : uint32_t {
  kTile64 = 64,  // BM and BN, for four SIMD groups
  kTile64Threads = 128,
  kTile128 = 128,  // BM and BN, for eight SIMD groups and 16-bit elements
  kTile128Threads = 256,
  kTileKBytes = 64,  // BK in bytes: the K extent of the A and B tiles in threadgroup memory
};
