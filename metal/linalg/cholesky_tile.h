// Column-major tiles in threadgroup memory for the Cholesky factorization.
#pragma once

#include "linalg/field.h"

enum : uint {
  kMicro = 4,  // each thread updates tiles of 4 x 4 elements
  kPivots = 8  // columns factored in registers at a time
};

// Four consecutive elements of a column, 16-byte aligned.
template <typename T> struct Quad { T v[kMicro]; };
inline Quad<float> load_quad(threadgroup const float* from) {
  const float4 x = *(threadgroup const float4*)from;
  return {{x.x, x.y, x.z, x.w}};
}
inline Quad<float2> load_quad(threadgroup const float2* from) {
  const float4 x = *(threadgroup const float4*)from, y = *(threadgroup const float4*)(from + 2);
  return {{x.xy, x.zw, y.xy, y.zw}};
}
inline void store_quad(threadgroup float* to, Quad<float> x) {
  *(threadgroup float4*)to = float4(x.v[0], x.v[1], x.v[2], x.v[3]);
}
inline void store_quad(threadgroup float2* to, Quad<float2> x) {
  *(threadgroup float4*)to = float4(x.v[0], x.v[1]);
  *(threadgroup float4*)(to + 2) = float4(x.v[2], x.v[3]);
}

// Maps an index to a tile on or below the diagonal of a rows x columns grid of tiles (rows >= columns). For every j,
// columns j and columns - 1 - j together have 2 * rows - columns + 1 such tiles. One division therefore finds the pair
// of columns, and no square root is needed.
struct LowerTile {
  uint row, column;
  bool exists;  // false for the duplicate tiles of an unpaired middle column
};
inline uint lower_tiles(uint rows, uint columns) { return (columns + 1) / 2 * (2 * rows - columns + 1); }
inline LowerTile lower_tile(uint index, uint rows, uint columns) {
  const uint pair_size = 2 * rows - columns + 1, pair = index / pair_size, k = index % pair_size;
  if (k < rows - pair) return {pair + k, pair, true};
  const uint column = columns - 1 - pair;
  return {column + k - (rows - pair), column, column != pair};
}

// c -= a b^H for a rows x columns tile c, whose sizes are multiples of 4. a and b have DEPTH columns. `lower` requires
// rows >= columns and updates only the 4 x 4 tiles on or below the diagonal.
template <uint DEPTH, typename T>
inline void rank_update(threadgroup T* c, uint c_pitch, threadgroup const T* a, threadgroup const T* b, uint pitch,
                        uint rows, uint columns, bool lower, GroupThread g) {
  const uint tile_rows = rows / kMicro, tile_columns = columns / kMicro;
  const uint tiles = lower ? lower_tiles(tile_rows, tile_columns) : tile_rows * tile_columns;
  for (uint index = g.index; index < tiles; index += g.count) {
    const LowerTile tile = lower ? lower_tile(index, tile_rows, tile_columns)
                                 : LowerTile{index % tile_rows, index / tile_rows, true};
    if (!tile.exists) continue;
    T sums[kMicro][kMicro];
    MPSX_UNROLL
    for (uint i = 0; i < kMicro; ++i) {
      MPSX_UNROLL
      for (uint j = 0; j < kMicro; ++j) sums[i][j] = field_number<T>(0.0f, 0.0f);
    }
    MPSX_UNROLL
    for (uint k = 0; k < DEPTH; ++k) {
      const Quad<T> x = load_quad(a + (k * pitch + tile.row * kMicro));
      const Quad<T> y = load_quad(b + (k * pitch + tile.column * kMicro));
      MPSX_UNROLL
      for (uint j = 0; j < kMicro; ++j) {
        MPSX_UNROLL
        for (uint i = 0; i < kMicro; ++i) sums[i][j] = product_sum(x.v[i], conjugate(y.v[j]), sums[i][j]);
      }
    }
    MPSX_UNROLL
    for (uint j = 0; j < kMicro; ++j) {
      threadgroup T* column = c + ((tile.column * kMicro + j) * c_pitch + tile.row * kMicro);
      Quad<T> z = load_quad(column);
      MPSX_UNROLL
      for (uint i = 0; i < kMicro; ++i) z.v[i] -= sums[i][j];
      store_quad(column, z);
    }
  }
}

// Pads a rows x columns tile with elements of the identity matrix.
template <typename T>
inline void pad_tile(threadgroup T* tile, uint pitch, uint rows, uint columns, uint padded_rows, uint padded_columns,
                     GroupThread g) {
  if (rows == padded_rows && columns == padded_columns) return;
  for (TileWalk w = tile_walk(padded_rows, padded_columns, 1, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    if (i >= rows || j >= columns) tile[j * pitch + i] = field_number<T>(i == j ? 1.0f : 0.0f, 0.0f);
  }
}
// Copies between device memory and a column-major tile.
template <typename T>
inline void load_columns(threadgroup T* to, uint pitch, device const T* from, MatrixStrides s, uint rows, uint columns,
                         GroupThread g) {
  copy_tile(matrix_view(to, 1, pitch), matrix_view(from, s.row, s.column), rows, columns, s.row == 1, g);
}
template <typename T>
inline void store_columns(device T* to, MatrixStrides s, threadgroup const T* from, uint pitch, uint rows, uint columns,
                          GroupThread g) {
  copy_tile(matrix_view(to, s.row, s.column), matrix_view(from, 1, pitch), rows, columns, s.row == 1, g);
}

// The kPivots x kPivots diagonal block of a panel. Every thread factors its own copy in registers. This is faster than
// sharing the work, which needs a barrier for every column.
template <typename T>
struct PivotBlock {
  T l[kPivots][kPivots];
  float reciprocal[kPivots];  // reciprocals of the diagonal elements
  uint factored;              // number of columns factored before the first non-positive pivot

  METAL_FUNC void load(threadgroup const T* a, uint pitch) {
    MPSX_UNROLL
    for (uint j = 0; j < kPivots; ++j) {
      MPSX_UNROLL
      for (uint first = j / kMicro * kMicro; first < kPivots; first += kMicro) {
        const Quad<T> x = load_quad(a + (j * pitch + first));
        MPSX_UNROLL
        for (uint i = 0; i < kMicro; ++i) l[first + i][j] = x.v[i];
      }
    }
  }
  METAL_FUNC void factor() {
    factored = kPivots;
    MPSX_UNROLL
    for (uint k = 0; k < kPivots; ++k) {
      const float pivot = real_part(l[k][k]);
      if (!(pivot > 0.0f)) {
        factored = k;
        break;
      }
      const float root = precise::sqrt(pivot);
      reciprocal[k] = 1.0f / root;
      l[k][k] = field_number<T>(root, 0.0f);
      MPSX_UNROLL
      for (uint i = k + 1; i < kPivots; ++i) l[i][k] *= reciprocal[k];
      MPSX_UNROLL
      for (uint j = k + 1; j < kPivots; ++j) {
        MPSX_UNROLL
        for (uint i = j; i < kPivots; ++i) l[i][j] = product_sum(l[i][k], -conjugate(l[j][k]), l[i][j]);
      }
    }
  }
  // Solves x L^H = a for one row of the tile. `row` contains a and is overwritten with x.
  METAL_FUNC void solve(threadgroup T* row, uint pitch) const {
    T x[kPivots];
    MPSX_UNROLL
    for (uint j = 0; j < kPivots; ++j) x[j] = row[j * pitch];
    MPSX_UNROLL
    for (uint k = 0; k < kPivots; ++k) {
      if (k >= factored) break;
      x[k] *= reciprocal[k];
      MPSX_UNROLL
      for (uint j = k + 1; j < kPivots; ++j) x[j] = product_sum(x[k], -conjugate(l[j][k]), x[j]);
      row[k * pitch] = x[k];
    }
  }
  // Stores the factor, one thread per column.
  METAL_FUNC void store(threadgroup T* a, uint pitch, GroupThread g) const {
    MPSX_UNROLL
    for (uint j = 0; j < kPivots; ++j) {
      if (j % g.count != g.index) continue;
      MPSX_UNROLL
      for (uint i = j; i < kPivots; ++i) a[j * pitch + i] = l[i][j];
    }
  }
};

// Factors the first n columns of a tile with `rows` rows. n must be a multiple of kPivots, and `rows` a multiple of 4.
// Returns the number of columns factored before the first non-positive pivot. Ends with a barrier.
template <typename T>
inline uint factor_tile(threadgroup T* tile, uint pitch, uint rows, uint n, GroupThread g) {
  for (uint first = 0; first < n; first += kPivots) {
    threadgroup T* corner = tile + (first * pitch + first);
    PivotBlock<T> block;
    block.load(corner, pitch);
    block.factor();
    const uint below = first + kPivots;
    for (uint i = below + g.index; i < rows; i += g.count) block.solve(tile + (first * pitch + i), pitch);
    tg_barrier();  // wait until every thread has loaded the block
    block.store(corner, pitch, g);
    if (block.factored < kPivots) {
      tg_barrier();
      return first + block.factored;
    }
    threadgroup const T* panel = corner + kPivots;
    threadgroup T* trailing = tile + (below * pitch + below);
    if (below < n)
      rank_update<kPivots>(trailing, pitch, panel, panel, pitch, rows - below, n - below, true, g);
    tg_barrier();
  }
  return n;
}
