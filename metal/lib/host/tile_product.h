// Products of tiles where a threadgroup is one thread: blocks of 4 x 32 sums in registers.
#pragma once

// Named in functions that only kernels with real SIMD groups call.
template <typename T, int C, int R>
struct simdgroup_matrix {
  vec<T, 2> thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
template <typename T, int C, int R>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value);

// Vectors of the compiler's own, since arrays of floats end up in memory.
typedef float WideLanes __attribute__((vector_size(64), aligned(4)));
enum : uint { kWideRows = 4, kWideColumns = 32, kWideDepth = 64 };

inline void wide_block(threadgroup const float* a, uint a_stride, threadgroup const float* b, uint b_stride, uint depth,
                       threadgroup float* out, uint out_stride) {
#pragma clang fp contract(fast)
  WideLanes sum[kWideRows][2];
#pragma unroll
  for (uint i = 0; i < kWideRows; ++i) sum[i][0] = WideLanes{}, sum[i][1] = WideLanes{};
  for (uint k = 0; k < depth; ++k) {
    const WideLanes y0 = *(const WideLanes*)(b + k * b_stride), y1 = *(const WideLanes*)(b + k * b_stride + 16);
#pragma unroll
    for (uint i = 0; i < kWideRows; ++i) {
      sum[i][0] += a[i * a_stride + k] * y0;
      sum[i][1] += a[i * a_stride + k] * y1;
    }
  }
#pragma unroll
  for (uint i = 0; i < kWideRows; ++i) {
    *(WideLanes*)(out + i * out_stride) += sum[i][0];
    *(WideLanes*)(out + i * out_stride + 16) += sum[i][1];
  }
}

// Lines as floats, those of `to` along the depth, or across it.
template <typename T, typename Source>
inline void stage_lines(Source source, uint line, uint count, uint first, uint deep, bool across, thread float* to,
                        uint stride) {
  enum : uint { kRun = 16 / sizeof(T) };
  const uint lines = source.along_depth ? 1 : kRun, ks = source.along_depth ? kRun : 1;
  for (uint l = 0; l < count; l += lines) {
    const typename Source::Line here = source.at(line + l);
    for (uint k = 0; k < deep; k += ks) {
      const uint4 run = source.run(here, first + k);
      T element[kRun];
      __builtin_memcpy(element, &run, 16);
      for (uint i = 0; i < kRun; ++i) {
        const uint at = source.along_depth ? l : l + i, depth = source.along_depth ? k + i : k;
        to[across ? depth * stride + at : at * stride + depth] = float(element[i]);
      }
    }
  }
}

template <typename Shape, typename A, typename B, typename Finish>
METAL_FUNC void tile_product(A a, B b, uint first, uint depth, Finish finish, uint rows, uint columns, Tile tile,
                             threadgroup uint4* memory, GroupThread g) {
  typedef typename Shape::type T;
  enum : uint { kStride = Shape::columns + 4 };
  float left[Shape::rows * kWideDepth], right[kWideDepth * kStride], sum[Shape::rows * kStride];
  const uint height = min(uint(Shape::rows), rows - tile.row), width = min(uint(Shape::columns), columns - tile.column);
  const uint down = (height + 7) / 8 * 8, across = (width + kWideColumns - 1) / kWideColumns * kWideColumns;
  for (uint i = 0; i < down * kStride; ++i) sum[i] = 0.0f;
  for (uint k = first; k < depth; k += kWideDepth) {
    const uint deep = (min(uint(kWideDepth), depth - k) + 7) / 8 * 8;
    stage_lines<T>(a, tile.row, down, k, deep, false, left, kWideDepth);
    stage_lines<T>(b, tile.column, across, k, deep, true, right, kStride);
    for (uint j = 0; j < across; j += kWideColumns)
      for (uint i = 0; i < down; i += kWideRows)
        wide_block(left + i * kWideDepth, kWideDepth, right + j, kStride, deep, sum + i * kStride + j, kStride);
  }
  for (uint i = 0; i < height; ++i)
    for (uint j = 0; j < width; ++j) finish.put(tile.row + i, tile.column + j, sum[i * kStride + j]);
}
