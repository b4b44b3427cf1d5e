// Tiles of a matrix that matmul2d reads as its right operand, and that load() can copy ahead of time. NVIDIA's matmul2d
// multiplies from threadgroup memory, so there the copy overlaps with computation (MPSX_STAGED_TILES is then
// metal_stdlib/cuda/tensor/staged_tiles.h). Apple's reads device memory, and nothing is copied.
//
//   MPSX_STAGED_TILES<Scope, T, 64, 128, 2> tiles;     // two buffers of 64 rows of 128 elements
//   tiles.load(0, first);                              // slices of device tensors
//   tiles.load(1, second);
//   tiles.template wait<1>();                          // at most one load is still in progress
//   multiply.run(left, tiles.tile(0, first), sums);
#pragma once

#include "lib/threadgroup.h"

// All threads of the scope call each function. A buffer may be loaded again after a wait() that follows its last use.
template <typename Scope, typename T, uint ROWS, uint COLUMNS, uint BUFFERS>
struct UnstagedTiles {
  template <typename Slice>
  METAL_FUNC void load(uint, Slice) const {}
  // Also a barrier for accesses to threadgroup memory.
  template <uint PENDING>
  METAL_FUNC void wait() const {
    tg_barrier();
  }
  template <typename Slice>
  METAL_FUNC Slice tile(uint, Slice slice) const {
    return slice;
  }
};
#ifndef MPSX_STAGED_TILES
#  define MPSX_STAGED_TILES UnstagedTiles
#endif
