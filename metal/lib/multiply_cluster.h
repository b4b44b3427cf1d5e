// Computes one tile of a GEMM per threadgroup. Consecutive threadgroups compute a block of ROWS x COLUMNS tiles. Tiles
// in the same row of the block need the same rows of op(A), and tiles in the same column the same columns of op(B). On
// NVIDIA's Hopper GPUs, the threadgroups of a block form a thread block cluster: each one loads a part of these
// operands and multicasts it to the others that need it (MPSX_MULTIPLY_CLUSTER is then
// metal_stdlib/cuda/tensor/multiply_cluster.h). Apple GPUs have no clusters, so there, each threadgroup computes its
// tile by itself.
//
//   MPSX_MULTIPLY_CLUSTER(gemm, position, epilogue);    // all threads of all threadgroups of the block call it
//
// The sums of the tile are passed to epilogue.store(sums, tile), unless the tile is outside of the output.
#pragma once

#include "lib/tensor_gemm.h"

// Where a threadgroup is in a grid of blocks.
template <typename TILE, uint ROWS, uint COLUMNS>
struct ClusterPosition {
  typedef TILE Tile;
  enum : uint { rows = ROWS, columns = COLUMNS, size = ROWS * COLUMNS };
  TileOffset first;  // the block's first tile
  uint rank;         // of the threadgroup in the block: the rows of a column follow each other
  METAL_FUNC TileOffset tile() const { return {first.m + rank % ROWS * Tile::BM, first.n + rank / ROWS * Tile::BN}; }
};
template <typename Tile, uint ROWS, uint COLUMNS>
METAL_FUNC ClusterPosition<Tile, ROWS, COLUMNS> cluster_position(uint index, uint M, uint N) {
  typedef TensorTile<Tile::BM * ROWS, Tile::BN * COLUMNS, Tile::simd_groups, false> Block;
  constexpr uint kSize = ROWS * COLUMNS;
  return {raster_tile<Block>(index / kSize, M, N), index % kSize};
}

// C = op(A) op(B) for the part of K from k_begin, a multiple of 64, to k_end. Addresses and pitches of the operands
// must be multiples of 16 bytes.
template <typename TILE, bool TRANSPOSE_A, bool TRANSPOSE_B, typename T>
struct ClusterGemm {
  typedef TILE Tile;
  typedef TensorMultiply<Tile, TRANSPOSE_A, TRANSPOSE_B, false> Multiply;
  TensorOperand<T> a, b;
  uint M, N, k_begin, k_end;

  METAL_FUNC auto left() const { return a.template matrix<!TRANSPOSE_A>(M, k_end); }
  METAL_FUNC auto right() const { return b.template matrix<TRANSPOSE_B>(N, k_end); }
  METAL_FUNC bool has(TileOffset tile) const { return tile.m < M && tile.n < N; }
  template <typename Epilogue>
  METAL_FUNC void compute(TileOffset tile, thread const Epilogue& epilogue) const {
    tensor_gemm_tile<Tile, TRANSPOSE_A, TRANSPOSE_B, false, true>(a, b, M, N, k_begin, k_end, tile, epilogue);
  }
};

template <typename Gemm, typename Position, typename Epilogue>
METAL_FUNC void multiply_cluster_apart(thread const Gemm& gemm, Position position, thread const Epilogue& epilogue) {
  if (gemm.has(position.tile())) gemm.compute(position.tile(), epilogue);
}
#ifndef MPSX_MULTIPLY_CLUSTER
#  define MPSX_MULTIPLY_CLUSTER multiply_cluster_apart
#endif
