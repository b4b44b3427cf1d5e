// Row tiles of two matrices. matmul2d reads them as operands, load() copies them ahead of time, and start() begins a
// product that runs while the kernel computes something else. NVIDIA's matmul2d multiplies from threadgroup
// memory, so there copies and products overlap with computation (MPSX_STAGED_TILES is then
// metal_stdlib/cuda/tensor/staged_tiles.h). Apple's reads device memory and has no such form, so there nothing is
// copied, and start() computes the product.
//
//   MPSX_STAGED_TILES<Scope, T, 64, 128, 2> tiles;     // per matrix, two buffers of 64 rows of 128 elements
//   tiles.open(K, V);                                  // device tensors, matrices 0 and 1
//   tiles.load(1, 0, row);                             // rows of V into its buffer 0; load(0, row): of both matrices
//   tiles.wait();                                      // for all loads
//   const auto started = tiles.start(multiply, left, 1, 0, V.slice(0, row), sums);  // like multiply.run()
//   ...                                                // does not use left, sums, or the tile
//   tiles.template finish<0>(started, sums);           // at most 0 products that were started later still run
//   tiles.close();
//
// The left operand of start() may be a cooperative tensor or rows(1, b, V.slice(0, row)), which are in buffer b and, if
// they are more than the rows of a tile, in the buffers after it.
#pragma once

#include "lib/threadgroup.h"

// All threads of the scope call each function. A buffer may be loaded again after a wait() that follows its last use.
// open() may be called again. Rows are contiguous and start at multiples of 16 bytes, and the row stride is positive.
template <typename Scope, typename T, uint ROWS, uint COLUMNS, uint BUFFERS>
struct UnstagedTiles {
  template <typename Matrix>
  METAL_FUNC void open(Matrix, Matrix) const {}
  METAL_FUNC void close() const {}
  METAL_FUNC void load(uint, uint, uint) const {}
  METAL_FUNC void load(uint, uint) const {}
  // Also a barrier for accesses to threadgroup memory.
  METAL_FUNC void wait() const { tg_barrier(); }
  template <typename Slice>
  METAL_FUNC Slice tile(uint, uint, Slice slice) const {
    return slice;
  }
  template <typename Slice>
  METAL_FUNC Slice rows(uint, uint, Slice slice) const {
    return slice;
  }
  template <typename Multiply, typename Left, typename Slice, typename Sums>
  METAL_FUNC uint start(thread Multiply& multiply, thread Left& left, uint, uint, Slice slice,
                        thread Sums& sums) const {
    multiply.run(left, slice, sums);
    return 0;
  }
  template <uint PENDING, typename Sums>
  METAL_FUNC void finish(uint, thread Sums&) const {}
};
#ifndef MPSX_STAGED_TILES
#  define MPSX_STAGED_TILES UnstagedTiles
#endif
