// Tiles of products of matrices, whatever the factors' source.
//
// A factor is seen as lines, rows of the left one and columns of the right one, along the depth of the product. It has
// `uint4 run(Line line, uint k)`: 16 bytes of elements from there on, neighbours along the depth if `along_depth`, else
// neighbouring lines; zeros beyond the end of either. `Line at(uint line)` is what a thread works out once of a line.
#pragma once

#include "lib/collective.h"
#include "lib/tile_params.h"

// The shape of a tile of elements T, and of the SIMD groups' parts of it.
// LIMIT: the threads for which a core's registers have to suffice, those of more than one threadgroup.
template <typename T, uint ROWS, uint COLUMNS, uint DOWN, uint ACROSS, uint LIMIT>
struct TileShape {
  typedef T type;
  enum : uint {
    rows = ROWS,
    columns = COLUMNS,
    own_rows = ROWS / DOWN,
    own_columns = COLUMNS / ACROSS,
    across = ACROSS,
    threads = kTileThreads / 4 * DOWN * ACROSS,
    limit = LIMIT,
    run = 16 / sizeof(T),
    depth = kTileBytes / sizeof(T),
    stride = depth + 8,  // in threadgroup memory, so that fragments of eight rows are in different banks
    memory = (ROWS + COLUMNS) * stride / run,  // in uint4
  };
};
template <typename T>
using SmallTile = TileShape<T, kTileRows, kTileColumns, 2, 2, (sizeof(T) == 4 ? 3 : 1) * kTileThreads>;
template <typename T> using LargeTile = TileShape<T, kLargeTile, kLargeTile, 2, 4, 2 * kLargeTileThreads>;

// Where a tile begins in the result.
struct Tile {
  uint row, column;
};

inline uint element_bits(float x) { return as_type<uint>(x); }
inline uint element_bits(half x) { return as_type<ushort>(x); }
inline uint element_bits(bfloat x) { return as_type<ushort>(x); }

// Lines of a matrix in memory, of any strides. S: the type in the tile.
template <typename T, typename S = T>
struct MatrixSource {
  struct Line {
    device const T* data;
    uint left;  // lines from this one on
  };
  device const T* data;
  long line_stride, depth_stride;
  uint lines, depth;
  bool wide;         // runs are neighbours in memory and aligned
  bool along_depth;  // not where lines alone are neighbours

  METAL_FUNC Line at(uint line) const {
    return {data + long(line) * line_stride, line < lines ? lines - line : 0};
  }
  METAL_FUNC uint4 run(Line line, uint k) const {
    enum : uint { kRun = 16 / sizeof(S) };
    uint4 r = uint4(0);
    if (line.left == 0 || k >= depth) return r;
    device const T* from = line.data + long(k) * depth_stride;
    const uint count = along_depth ? depth - k : line.left;
    if (wide && count >= kRun) return *(device const uint4*)from;
    const long step = along_depth ? depth_stride : line_stride;
#pragma unroll
    for (uint i = 0; i < kRun; ++i) {
      const S element = S(from[long(min(i, count - 1)) * step]);
      r[i * sizeof(S) / 4] |= (i < count ? element_bits(element) : 0) << i * sizeof(S) % 4 * 8;
    }
    return r;
  }
};
template <typename S = void, typename T>
METAL_FUNC auto matrix_source(device const T* data, long line_stride, long depth_stride, uint lines, uint depth,
                          bool wide) {
  typedef conditional_t<is_same_v<S, void>, T, S> staged;
  return MatrixSource<T, staged>{data, line_stride, depth_stride, lines, depth, wide && is_same_v<T, staged>,
                                 depth_stride == 1 || line_stride != 1};
}

// A thread's share of a factor's slice, on its way from device to threadgroup memory, where lines lie along the depth.
template <typename T, uint LINES, uint DEPTH, uint THREADS>
struct TileShare {
  enum : uint {
    kRun = 16 / sizeof(T),
    kRuns = LINES * DEPTH / kRun / THREADS,
    kTogether = 4 / sizeof(T),  // neighbours in depth, which share a word, that a thread takes of neighbouring lines
    kAcross = DEPTH / kRun,
    kDown = DEPTH / kTogether,
  };
  uint4 held[kRuns];

  // The line and the place in depth at which run i begins.
  METAL_FUNC static uint2 place(bool along_depth, uint i, uint index) {
    const uint at = index + i * THREADS, across = index + i / kTogether * THREADS;
    if (along_depth) return uint2(at / kAcross, at % kAcross * kRun);
    return uint2(across / kDown * kRun, across % kDown * kTogether + i % kTogether);
  }

  // The lines of this thread's runs.
  template <typename Source>
  METAL_FUNC static void aim(Source source, uint line, uint index, thread typename Source::Line (&lines)[kRuns]) {
#pragma unroll
    for (uint i = 0; i < kRuns; ++i) lines[i] = source.at(line + place(source.along_depth, i, index).x);
  }
  template <typename Source>
  METAL_FUNC void load(Source source, thread const typename Source::Line (&lines)[kRuns], uint k, uint index) {
#pragma unroll
    for (uint i = 0; i < kRuns; ++i) held[i] = source.run(lines[i], k + place(source.along_depth, i, index).y);
  }
  template <typename Source>
  METAL_FUNC void load(Source source, uint line, uint k, uint index) {
    typename Source::Line lines[kRuns];
    aim(source, line, index, lines);
    load(source, lines, k, index);
  }

  template <typename Source>
  METAL_FUNC void store(Source source, threadgroup T* to, uint stride, uint index) const {
    if (source.along_depth) {
#pragma unroll
      for (uint i = 0; i < kRuns; ++i) {
        const uint2 at = place(true, i, index);
        *(threadgroup uint4*)(to + at.x * stride + at.y) = held[i];
      }
      return;
    }
#pragma unroll
    for (uint i = 0; i < kRuns; i += kTogether) {
      const uint2 at = place(false, i, index);
      threadgroup T* first = to + at.x * stride + at.y;
#pragma unroll
      for (uint j = 0; j < kRun; ++j) {
        const uint x = held[i][j / kTogether], y = held[i + kTogether - 1][j / kTogether];
        const uint both = j % 2 == 0 ? (x & 0xffffu) | y << 16 : x >> 16 | (y & 0xffff0000u);
        *(threadgroup uint*)(first + j * stride) = kTogether == 1 ? x : both;
      }
    }
  }
};

// finish.put(row, column, sum) for every element within rows x columns of the tile from [first, depth) of the product.
// Loops over a SIMD group's matrices are unrolled: they are registers, which have no addresses.
template <typename Shape, typename A, typename B, typename Finish>
METAL_FUNC void tile_product(A a, B b, uint first, uint depth, Finish finish, uint rows, uint columns, Tile tile,
                         threadgroup uint4* memory, GroupThread g) {
  typedef typename Shape::type T;
  enum : uint { kDown = Shape::own_rows / 8, kAcross = Shape::own_columns / 8, kStride = Shape::stride };
  // Sums of floats are of two levels, 64 products and the sums of these, so that errors grow slowly.
  enum : uint { kTwoLevels = sizeof(T) == 4, kSum = 64 };
  threadgroup T* left = (threadgroup T*)memory;
  threadgroup T* right = left + Shape::rows * kStride;
  const uint own = g.index / g.width;
  const uint row = own / Shape::across * Shape::own_rows, column = own % Shape::across * Shape::own_columns;
  typedef TileShare<T, Shape::rows, Shape::depth, Shape::threads> AShare;
  typedef TileShare<T, Shape::columns, Shape::depth, Shape::threads> BShare;
  AShare a_share;
  BShare b_share;
  typename A::Line a_lines[AShare::kRuns];
  typename B::Line b_lines[BShare::kRuns];
  AShare::aim(a, tile.row, g.index, a_lines);
  BShare::aim(b, tile.column, g.index, b_lines);
  simdgroup_float8x8 total[kDown][kAcross], sum[kDown][kAcross];
#pragma unroll
  for (uint i = 0; i < kDown; ++i)
#pragma unroll
    for (uint j = 0; j < kAcross; ++j)
      total[i][j] = sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  a_share.load(a, a_lines, first, g.index);
  b_share.load(b, b_lines, first, g.index);
  for (uint k = first; k < depth; k += Shape::depth) {
    a_share.store(a, left, kStride, g.index);
    b_share.store(b, right, kStride, g.index);
    tg_barrier();
    const uint next = k + Shape::depth;
    if (next < depth) {  // while the SIMD groups multiply
      a_share.load(a, a_lines, next, g.index);
      b_share.load(b, b_lines, next, g.index);
    }
#pragma unroll
    for (uint step = 0; step < Shape::depth; step += 8) {
      simdgroup_matrix<T, 8, 8> x[kDown], y[kAcross];
#pragma unroll
      for (uint i = 0; i < kDown; ++i) simdgroup_load(x[i], left + (row + i * 8) * kStride + step, kStride);
#pragma unroll
      for (uint j = 0; j < kAcross; ++j)
        simdgroup_load(y[j], right + (column + j * 8) * kStride + step, kStride, ulong2(0), true);
#pragma unroll
      for (uint i = 0; i < kDown; ++i)
#pragma unroll
        for (uint j = 0; j < kAcross; ++j) simdgroup_multiply_accumulate(sum[i][j], x[i], y[j], sum[i][j]);
    }
    if (kTwoLevels && (next >= depth || (next - first) % kSum == 0))
#pragma unroll
      for (uint i = 0; i < kDown; ++i)
#pragma unroll
        for (uint j = 0; j < kAcross; ++j) {
          total[i][j].thread_elements() += sum[i][j].thread_elements();
          sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
    tg_barrier();
  }
  // Eight rows at a time, so that neighbouring threads have neighbours of the result.
  enum : uint { kLine = Shape::own_columns + 8 };
  threadgroup float* line = (threadgroup float*)memory + own * 8 * kLine;
#pragma unroll
  for (uint i = 0; i < kDown; ++i) {
#pragma unroll
    for (uint j = 0; j < kAcross; ++j) simdgroup_store(kTwoLevels ? total[i][j] : sum[i][j], line + j * 8, kLine);
    sg_barrier();
    for (uint e = g.lane; e < 8 * Shape::own_columns; e += g.width) {
      const uint r = e / Shape::own_columns, c = e % Shape::own_columns;
      const uint at = tile.row + row + i * 8 + r, to = tile.column + column + c;
      if (at < rows && to < columns) finish.put(at, to, line[r * kLine + c]);
    }
    sg_barrier();
  }
}
