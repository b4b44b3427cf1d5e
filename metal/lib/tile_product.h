// One tile of the product of two matrices, whatever their source, left as floats in threadgroup memory.
//
// A factor has `void stage(threadgroup float* to, uint stride, uint row, uint column, uint rows, uint columns,
// GroupThread g)`: the threads of the group write its elements from (row, column) on, and zeros beyond its end.
//
// Sums are of two levels, kTileSum products and the sums of these, so that errors grow slowly.
#pragma once

#include "lib/collective.h"
#include "lib/tile_params.h"

enum : uint { kTileSum = 64 };

// Where a tile is in the result, beyond whose end a part of it may lie.
struct Tile {
  uint row, column;
};
inline Tile tile_at(uint row, uint column) { return {row * kTileRows, column * kTileColumns}; }

// Element (row, column) of a matrix in memory, of any strides.
template <typename T>
struct MatrixSource {
  device const T* data;
  long row_stride, column_stride;
  uint rows, columns;

  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
    device const T* from = data + (long(row) * row_stride + long(column) * column_stride);
    const uint down = row < rows ? min(height, rows - row) : 0;
    const uint right = column < columns ? min(width, columns - column) : 0;
    // Neighbouring threads read neighbours in memory.
    const bool along_rows = column_stride == 1;
    for (uint i = g.index; i < height * width; i += g.count) {
      const uint r = along_rows ? i / width : i % height, c = along_rows ? i % width : i / height;
      const bool inside = r < down && c < right;
      to[r * stride + c] = inside ? float(from[long(r) * row_stride + long(c) * column_stride]) : 0.0f;
    }
  }
};

// Adds the product of two factors in threadgroup memory to `out`, which all threads have reached, and leaves it to
// them. Rows and columns are multiples of 8, and so is the depth, which is filled up with zeros.
inline void block_product(threadgroup float* out, uint out_stride, threadgroup const float* a, uint a_stride,
                          threadgroup const float* b, uint b_stride, uint rows, uint columns, uint depth,
                          GroupThread g) {
  const uint across = columns / 8;
  for (uint block = g.index / g.width; block < rows / 8 * across; block += g.count / g.width) {
    const uint row = block / across * 8, column = block % across * 8;
    simdgroup_float8x8 sum, x, y;
    simdgroup_load(sum, out + row * out_stride + column, out_stride);
    for (uint k = 0; k < depth; k += 8) {
      simdgroup_load(x, a + row * a_stride + k, a_stride);
      simdgroup_load(y, b + k * b_stride + column, b_stride);
      simdgroup_multiply_accumulate(sum, x, y, sum);
    }
    simdgroup_store(sum, out + row * out_stride + column, out_stride);
  }
  tg_barrier();
}

// 8x8 blocks along each side of a SIMD group's quarter. Loops over them are unrolled: a SIMD group's matrices are
// registers, which have no addresses.
enum : uint { kBlocks = 4 };

template <typename A, typename B>
inline void tile_product(A a, B b, uint depth, Tile tile, threadgroup float* memory, GroupThread g) {
  enum : uint { kStrideA = kTileDepth + kTilePad, kStrideB = kTileStride };
  threadgroup float* left = memory;
  threadgroup float* right = memory + kTileRows * kStrideA;
  const uint quarter = g.index / g.width;
  const uint row = quarter / 2 * (kTileRows / 2), column = quarter % 2 * (kTileColumns / 2);
  simdgroup_float8x8 total[kBlocks][kBlocks], sum[kBlocks][kBlocks];
#pragma unroll
  for (uint i = 0; i < kBlocks; ++i)
#pragma unroll
    for (uint j = 0; j < kBlocks; ++j)
      total[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), sum[i][j] = total[i][j];
  for (uint k = 0; k < depth; k += kTileDepth) {
    if (k > 0) tg_barrier();
    a.stage(left, kStrideA, tile.row, k, kTileRows, kTileDepth, g);
    b.stage(right, kStrideB, k, tile.column, kTileDepth, kTileColumns, g);
    tg_barrier();
    for (uint step = 0; step < kTileDepth; step += 8) {
      simdgroup_float8x8 x[kBlocks], y[kBlocks];
#pragma unroll
      for (uint i = 0; i < kBlocks; ++i) {
        simdgroup_load(x[i], left + (row + i * 8) * kStrideA + step, kStrideA);
        simdgroup_load(y[i], right + step * kStrideB + column + i * 8, kStrideB);
      }
#pragma unroll
      for (uint i = 0; i < kBlocks; ++i)
#pragma unroll
        for (uint j = 0; j < kBlocks; ++j) simdgroup_multiply_accumulate(sum[i][j], x[i], y[j], sum[i][j]);
    }
    if (k + kTileDepth >= depth || (k + kTileDepth) % kTileSum == 0)
#pragma unroll
      for (uint i = 0; i < kBlocks; ++i)
#pragma unroll
        for (uint j = 0; j < kBlocks; ++j) {
          total[i][j].thread_elements() += sum[i][j].thread_elements();
          sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
  }
  tg_barrier();
#pragma unroll
  for (uint i = 0; i < kBlocks; ++i)
#pragma unroll
    for (uint j = 0; j < kBlocks; ++j)
      simdgroup_store(total[i][j], memory + (row + i * 8) * kTileStride + column + j * 8, kTileStride);
  tg_barrier();
}

// finish.put(row, column, sum) for every element of the tile within rows x columns.
template <typename Finish>
inline void tile_finish(Finish finish, uint rows, uint columns, Tile tile, threadgroup const float* memory,
                        GroupThread g) {
  for (uint i = g.index; i < kTileRows * kTileColumns; i += g.count) {
    const uint r = i / kTileColumns, c = i % kTileColumns;
    if (tile.row + r < rows && tile.column + c < columns)
      finish.put(tile.row + r, tile.column + c, memory[r * kTileStride + c]);
  }
}
