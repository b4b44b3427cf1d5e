// GEMM on the tensor tier. Each threadgroup computes one tile of C = op(A) op(B) with Metal 4's matmul2d.
#pragma once

// Apple's headers must be included in this order: metal_stdlib, metal_tensor, MetalPerformancePrimitives.
// clang-format off
#include "lib/gemm.h"
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
// clang-format on

using namespace mpp::tensor_ops;

// A BM x BN tile that SIMD_GROUPS SIMD groups compute. With STATIC_INTERIOR, tiles in the interior of the matrices have
// static extents, which saves the bounds checks on Apple GPUs (2 to 25% on an M5, metalBLAS).
template <uint M, uint N, uint SIMD_GROUPS, bool STATIC_INTERIOR>
struct TensorTile {
  enum : uint { BM = M, BN = N, threads = kTile64Threads / 4 * SIMD_GROUPS };
  enum : int { simd_groups = SIMD_GROUPS };
  static constant constexpr bool static_interior = STATIC_INTERIOR;
};

// Returns the tile that threadgroup `index` computes. Consecutive threadgroups go through eight rows of tiles at a
// time, column by column, so that their operands stay in the cache.
template <typename Tile>
METAL_FUNC TileOffset raster_tile(uint index, uint M, uint N) {
  enum : uint { kRows = 8 };
  const uint rows = (M + Tile::BM - 1) / Tile::BM, columns = (N + Tile::BN - 1) / Tile::BN;
  const uint first = index / (kRows * columns) * kRows, height = min(rows - first, uint(kRows));
  const uint i = index % (kRows * columns);
  return {(first + i % height) * Tile::BM, i / height * Tile::BN};
}

// A tile of a batch of matrices: its first row and column, and the index of the matrix.
struct GemmTile {
  uint m, n, batch;
};
template <typename Tile>
METAL_FUNC GemmTile raster_batch_tile(uint index, uint M, uint N) {
  const uint tiles = (M + Tile::BM - 1) / Tile::BM * ((N + Tile::BN - 1) / Tile::BN), batch = index / tiles;
  const TileOffset tile = raster_tile<Tile>(index - batch * tiles, M, N);
  return {tile.m, tile.n, batch};
}

// Replaces each element x of a tile, which is a cooperative tensor, with f.apply(row, column, x). The row and column
// are positions in the matrix and may be past its end.
template <typename Sum, typename F>
METAL_FUNC void transform_tile(thread Sum& sum, TileOffset tile, thread const F& f) {
  MPSX_UNROLL
  for (ushort i = 0; i < sum.get_capacity(); ++i) {
    const auto at = sum.get_multidimensional_index(i);
    sum[i] = f.apply(tile.m + uint(at[1]), tile.n + uint(at[0]), sum[i]);
  }
}

template <typename Multiply, typename Left, typename Right, typename Sum>
METAL_FUNC void run_multiply(thread const Multiply& multiply, thread Left& left, thread Right& right, thread Sum& sum) {
  multiply.run(left, right, sum);
}
// Runs a matmul2d on operands that are not empty, and whose addresses and strides are multiples of 16 bytes. The NVIDIA
// version (metal_stdlib/cuda/tensor/aligned_operands.h) compiles faster, because it handles no other operands.
#ifndef MPSX_RUN_ALIGNED
#  define MPSX_RUN_ALIGNED run_multiply
#endif

// Multiplies two slices that start at a tile's rows and columns, and passes the sums to epilogue.store(sums, tile).
template <typename Multiply, bool ALIGNED, typename Left, typename Right, typename Position, typename Epilogue>
METAL_FUNC void multiply_slices(Left left, Right right, Position tile, thread const Epilogue& epilogue) {
  Multiply multiply;
  auto sum = multiply.template get_destination_cooperative_tensor<Left, Right, float>();
  if (ALIGNED)
    MPSX_RUN_ALIGNED(multiply, left, right, sum);
  else
    multiply.run(left, right, sum);
  epilogue.store(sum, tile);
}

// An operand of a GEMM. `pitch` is the stride of its non-contiguous dimension.
template <typename T>
struct TensorOperand {
  device T* data;
  long pitch;
  // Returns the matrix up to k_end. K_MAJOR: K is contiguous. `size` is M for A and N for B.
  template <bool K_MAJOR>
  METAL_FUNC auto matrix(uint size, uint k_end) const {
    typedef dextents<int, 2> Extents;
    return tensor(data, K_MAJOR ? Extents(int(k_end), int(size)) : Extents(int(size), int(k_end)),
                  array<int, 2>{1, int(pitch)});
  }
};

template <typename Tile, bool TRANSPOSE_A, bool TRANSPOSE_B, bool RELAXED>
using TensorMultiply = matmul2d<matmul2d_descriptor(int(Tile::BM), int(Tile::BN), static_cast<int>(dynamic_extent),
                                                    TRANSPOSE_A, TRANSPOSE_B, RELAXED),
                                execution_simdgroups<Tile::simd_groups>>;

// Computes one tile of the part of K from k_begin to k_end. TRANSPOSE_A: A is stored as K x M, contiguous along M.
// TRANSPOSE_B: B is stored as N x K. ALIGNED: as for MPSX_RUN_ALIGNED. `tile` is a TileOffset or a GemmTile.
template <typename Tile, bool TRANSPOSE_A, bool TRANSPOSE_B, bool RELAXED, bool ALIGNED, typename T, typename Position,
          typename Epilogue>
METAL_FUNC void tensor_gemm_tile(TensorOperand<T> a, TensorOperand<T> b, uint M, uint N, uint k_begin, uint k_end,
                                 Position tile, thread const Epilogue& epilogue) {
  typedef TensorMultiply<Tile, TRANSPOSE_A, TRANSPOSE_B, RELAXED> Multiply;
  const int row = int(tile.m), column = int(tile.n), k = int(k_begin);
  auto A = a.template matrix<!TRANSPOSE_A>(M, k_end);
  auto B = b.template matrix<TRANSPOSE_B>(N, k_end);
  if (Tile::static_interior && tile.m + Tile::BM <= M && tile.n + Tile::BN <= N) {
    constexpr size_t kRows = Tile::BM, kColumns = Tile::BN, kDynamic = dynamic_extent;
    multiply_slices<Multiply, ALIGNED>(
        A.template slice<TRANSPOSE_A ? kRows : kDynamic, TRANSPOSE_A ? kDynamic : kRows>(TRANSPOSE_A ? row : k,
                                                                                         TRANSPOSE_A ? k : row),
        B.template slice<TRANSPOSE_B ? kDynamic : kColumns, TRANSPOSE_B ? kColumns : kDynamic>(
            TRANSPOSE_B ? k : column, TRANSPOSE_B ? column : k),
        tile, epilogue);
    return;
  }
  multiply_slices<Multiply, ALIGNED>(A.slice(TRANSPOSE_A ? row : k, TRANSPOSE_A ? k : row),
                                     B.slice(TRANSPOSE_B ? k : column, TRANSPOSE_B ? column : k), tile, epilogue);
}
