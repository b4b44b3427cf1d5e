// GEMM tile sizes, shared with launchers.
#pragma once

#include "lib/types.h"

enum : uint32_t {
  kTile64 = 64,  // BM and BN of kernels with four SIMD groups
  kTile64Threads = 128,
  kTile128 = 128,  // BM and BN of kernels with eight SIMD groups, for 16-bit elements
  kTile128Threads = 256,
  kTileKBytes = 64,  // K extent of the tiles of A and B in threadgroup memory, in bytes
};
