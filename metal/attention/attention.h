// Building blocks of the attention kernels, forward and backward. Each SIMD group keeps its rows of one operand in
// registers and streams tiles of the other operand through threadgroup memory.
#pragma once

#include "attention/attention_math.h"
#include "lib/gemm.h"
#include "lib/math.h"

// Fragments on the simdgroup tier: 8 x 8 elements of an operand, of S or P, or of the accumulators, two per lane.
template <typename T>
struct SimdgroupFragments {
  typedef simdgroup_matrix<T, 8, 8> Operand;
  typedef simdgroup_float8x8 Accumulator;
  enum : uint { elements = 2 };
};

// Tile sizes. A threadgroup computes one rows x columns tile of S = Q K^T at a time, or of S^T in the dK and dV passes.
// HEAD_DIM: the zero-padded head dimension. STEPS: number of steps in which a SIMD group computes a tile's columns.
// Fragments: the fragment types. Each fragment has 8 rows of 4 * elements columns.
template <typename T, uint HEAD_DIM, uint STEPS = 1, typename Fragments = SimdgroupFragments<T>>
struct AttentionShape {
  typedef typename Fragments::Operand Operand;
  typedef typename Fragments::Accumulator Accumulator;
  enum : uint {
    elements = Fragments::elements,  // elements of a fragment per lane
    fragment_columns = 4 * elements,
    head_dim = HEAD_DIM,
    stride = HEAD_DIM + 8,  // row stride in threadgroup memory
    simdgroup_rows = attention_rows(HEAD_DIM),
    rows = simdgroup_rows * 4,
    columns = 8192 / (HEAD_DIM * sizeof(T)),
    column_step = columns / STEPS < 16 ? columns : columns / STEPS,
    memory = 2 * columns * stride * sizeof(T) / 16,     // two tiles, in uint4
    passes = (rows + 2 * columns - 1) / (2 * columns),  // how often `memory` must be refilled to load all rows
    row_fragments = simdgroup_rows / 8,
    column_fragments = column_step / fragment_columns,
    dim_fragments = HEAD_DIM / fragment_columns,
  };
  typedef BlockLoader<T, columns, HEAD_DIM, kAttentionThreads> Loader;
};

// Provides the rows of one attention head to BlockLoader. The launcher guarantees that rows are 16-byte aligned and
// padded to a multiple of 16 bytes.
template <typename T>
struct AttentionRows {
  typedef uint Cursor;
  enum : uint { k_contiguous = 1 };
  device const T* data;
  long stride;
  uint rows, dim;
  METAL_FUNC Cursor at(uint row) const { return row; }
  METAL_FUNC uint4 load(Cursor row, uint k) const {
    const bool in_range = row < rows && k < dim;
    const uint4 r = *(device const uint4*)(data + (long(min(row, rows - 1)) * stride + (k < dim ? k : 0)));
    return in_range ? r : uint4(0);  // Select after the load, because a branch would delay the next load.
  }
};
template <typename T>
inline AttentionRows<T> rows_of(device const T* data, long stride, uint rows, uint dim) {
  return {data, stride, rows, dim};
}

template <typename T>
METAL_FUNC void load_fragment(thread simdgroup_matrix<T, 8, 8>& to, threadgroup const T* from, uint stride, uint) {
  simdgroup_load(to, from, stride);
}
METAL_FUNC void clear_fragment(thread simdgroup_float8x8& acc) {
  acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}

// Loads the threadgroup's rows, which start at `row`, into fragments. Each SIMD group loads different rows.
template <typename Shape, typename T>
METAL_FUNC void load_fragments(thread typename Shape::Operand (&to)[Shape::row_fragments][Shape::dim_fragments],
                               AttentionRows<T> rows, uint row, threadgroup uint4* memory, GroupThread g) {
  // Rows and SIMD groups that are loaded per pass.
  enum : uint { kRows = Shape::rows / Shape::passes, kSimdgroups = 4 / Shape::passes };
  threadgroup T* staged = (threadgroup T*)memory;
  const uint simdgroup = g.index / g.width;
#pragma unroll
  for (uint pass = 0; pass < Shape::passes; ++pass) {
    BlockLoader<T, kRows, Shape::head_dim, kAttentionThreads> loader;
    loader.load(rows, row + pass * kRows, 0, g.index);
    tg_barrier();
    loader.store(rows, staged, Shape::stride, g.index);
    tg_barrier();
    if (simdgroup / kSimdgroups != pass) continue;
#pragma unroll
    for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
      for (uint k = 0; k < Shape::dim_fragments; ++k)
        load_fragment(to[i][k],
                      staged + (simdgroup % kSimdgroups * Shape::simdgroup_rows + i * 8) * Shape::stride +
                          k * Shape::fragment_columns,
                      Shape::stride, g.lane);
  }
  tg_barrier();
}

// S = A B^T, with A in fragments and B in threadgroup memory.
template <typename Shape, typename T>
METAL_FUNC void compute_scores(thread simdgroup_float8x8 (&S)[Shape::row_fragments][Shape::column_fragments],
                               thread const simdgroup_matrix<T, 8, 8> (&A)[Shape::row_fragments][Shape::dim_fragments],
                               threadgroup const T* B, uint) {
#pragma unroll
  for (uint j = 0; j < Shape::column_fragments; ++j) {
#pragma unroll
    for (uint i = 0; i < Shape::row_fragments; ++i) S[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
    for (uint k = 0; k < Shape::dim_fragments; ++k) {
      simdgroup_matrix<T, 8, 8> b;
      simdgroup_load(b, B + j * 8 * Shape::stride + k * 8, Shape::stride, ulong2(0), true);
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i) simdgroup_multiply_accumulate(S[i][j], A[i][k], b, S[i][j]);
    }
  }
}

// acc += P B, for example O += P V, where P is first rounded to the element type.
template <typename Shape, typename T>
METAL_FUNC void accumulate(thread simdgroup_float8x8 (&acc)[Shape::row_fragments][Shape::dim_fragments],
                           thread const simdgroup_float8x8 (&P)[Shape::row_fragments][Shape::column_fragments],
                           threadgroup const T* B, uint) {
  simdgroup_matrix<T, 8, 8> p[Shape::row_fragments][Shape::column_fragments];
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
    for (uint j = 0; j < Shape::column_fragments; ++j) p[i][j].thread_elements() = vec<T, 2>(P[i][j].thread_elements());
#pragma unroll
  for (uint e = 0; e < Shape::dim_fragments; ++e)
#pragma unroll
    for (uint j = 0; j < Shape::column_fragments; ++j) {
      simdgroup_matrix<T, 8, 8> b;
      simdgroup_load(b, B + j * 8 * Shape::stride + e * 8, Shape::stride);
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i) simdgroup_multiply_accumulate(acc[i][e], p[i][j], b, acc[i][e]);
    }
}

template <typename Shape>
METAL_FUNC void clear(thread typename Shape::Accumulator (&acc)[Shape::row_fragments][Shape::dim_fragments]) {
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
    for (uint e = 0; e < Shape::dim_fragments; ++e) clear_fragment(acc[i][e]);
}

// Scales each row of this lane's accumulators and stores the elements that are within the rows x dim bounds.
template <typename Shape, typename T>
METAL_FUNC void store_rows(device T* to, long stride,
                           thread typename Shape::Accumulator (&acc)[Shape::row_fragments][Shape::dim_fragments],
                           thread const float (&scale)[Shape::row_fragments], uint row, uint rows, uint column,
                           uint dim) {
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i) {
    if (row + i * 8 >= rows) continue;
    device T* out = to + long(row + i * 8) * stride + column;
#pragma unroll
    for (uint e = 0; e < Shape::dim_fragments; ++e)
#pragma unroll
      for (uint n = 0; n < Shape::elements; ++n)
        if (column + e * Shape::fragment_columns + n < dim)
          out[e * Shape::fragment_columns + n] = T(acc[i][e].thread_elements()[n] * scale[i]);
  }
}
