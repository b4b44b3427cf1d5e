// Computes several tiles of a GEMM in one threadgroup. On NVIDIA GPUs, each matmul2d::run() builds tensor maps and
// fills a pipeline of loads, which takes as long as seven steps of K. There, all tiles share the maps, and loads for
// the next tile start while the previous one is multiplied (MPSX_MULTIPLY_TILES is then
// metal_stdlib/cuda/tensor/multiply_tiles.h). Apple's runs have no such cost and follow each other.
//
//   MPSX_MULTIPLY_TILES(gemm, tiles, epilogue);    // all threads of the threadgroup call it
//
// `gemm` is a TensorGemm. The sums of each tile are passed to epilogue.store(sums, tile).
#pragma once

#include "lib/tensor_gemm.h"

// The tiles first, first + stride, ... of `total`.
struct GemmTiles {
  uint first, stride, total;
  METAL_FUNC uint count() const { return first < total ? (total - first + stride - 1) / stride : 0; }
};

// C = op(A) op(B) for a batch of matrices, as in tensor_gemm_tile(). Addresses and strides of the operands must be
// multiples of 16 bytes.
template <typename TILE, bool TRANSPOSE_A, bool TRANSPOSE_B, typename T>
struct TensorGemm {
  typedef TILE Tile;
  typedef TensorMultiply<Tile, TRANSPOSE_A, TRANSPOSE_B, false> Multiply;
  TensorOperand<T> a, b;
  long a_batch, b_batch;  // strides between the matrices of a batch
  uint M, N, K;

  METAL_FUNC GemmTile tile(uint index) const { return raster_batch_tile<Tile>(index, M, N); }
  // Return the first matrix of the batch.
  METAL_FUNC auto left() const { return a.template matrix<!TRANSPOSE_A>(M, K); }
  METAL_FUNC auto right() const { return b.template matrix<TRANSPOSE_B>(N, K); }
  template <typename Epilogue>
  METAL_FUNC void compute(GemmTile tile, thread const Epilogue& epilogue) const {
    const TensorOperand<T> left = {a.data + long(tile.batch) * a_batch, a.pitch};
    const TensorOperand<T> right = {b.data + long(tile.batch) * b_batch, b.pitch};
    tensor_gemm_tile<Tile, TRANSPOSE_A, TRANSPOSE_B, false, true>(left, right, M, N, 0, K, tile, epilogue);
  }
};

template <typename Gemm, typename Epilogue>
METAL_FUNC void multiply_tiles_in_turn(thread const Gemm& gemm, GemmTiles tiles, thread const Epilogue& epilogue) {
  for (uint i = tiles.first; i < tiles.total; i += tiles.stride) gemm.compute(gemm.tile(i), epilogue);
}
#ifndef MPSX_MULTIPLY_TILES
#  define MPSX_MULTIPLY_TILES multiply_tiles_in_turn
#endif
