// Shared by the passes of attention: rows of a SIMD group in registers, and blocks of the other side's rows in
// threadgroup memory.
#pragma once

#include "attention/attention_params.h"
#include "lib/math.h"
#include "lib/random.h"
#include "lib/tile_product.h"

// SIZE: of a head in registers and threadgroup memory, with zeros beyond its end. STEPS: in which a SIMD group takes
// the other side's rows in threadgroup memory.
template <typename T, uint SIZE, uint STEPS = 1>
struct AttentionShape {
  enum : uint {
    size = SIZE,
    stride = SIZE + 8,                    // of rows in threadgroup memory
    own_rows = attention_rows(SIZE),      // of a SIMD group
    rows = own_rows * 4,                  // of a threadgroup
    columns = 8192 / (SIZE * sizeof(T)),  // of the other side, in threadgroup memory at a time
    step = columns / STEPS < 16 ? columns : columns / STEPS,
    memory = 2 * columns * stride * sizeof(T) / 16,     // in uint4
    passes = (rows + 2 * columns - 1) / (2 * columns),  // in which the own rows go through that memory
    down = own_rows / 8,
    across = step / 8,
    deep = SIZE / 8,
  };
  typedef TileShare<T, columns, SIZE, kAttentionThreads> Share;
};

// One head of one batch.
struct AttentionHead {
  uint batch, head;
  template <typename T>
  device const T* in(device const T* data, AttentionStrides s, uint shared) const {
    return data + (long(batch) * s.batch + long(head / shared) * s.head);
  }
};
// Rows of a head, which TileShare reads 16 bytes at a time: the launcher sees to it that they are aligned and whole.
template <typename T>
struct AttentionRows {
  typedef uint Line;
  enum : uint { along_depth = 1 };
  device const T* data;
  long stride;
  uint rows, size;
  METAL_FUNC Line at(uint row) const { return row; }
  METAL_FUNC uint4 run(Line row, uint k) const {
    const bool there = row < rows && k < size;
    const uint4 r = *(device const uint4*)(data + (long(min(row, rows - 1)) * stride + (k < size ? k : 0)));
    return there ? r : uint4(0);  // after the load, so that no branch delays the next one
  }
};
template <typename T>
inline AttentionRows<T> rows_of(device const T* data, long stride, uint rows, uint size) {
  return {data, stride, rows, size};
}

// The threadgroup's rows from `row` on, each SIMD group's as a left factor in its registers.
template <typename Shape, typename T>
METAL_FUNC void load_rows(thread simdgroup_matrix<T, 8, 8> (&to)[Shape::down][Shape::deep], AttentionRows<T> rows,
                          uint row, threadgroup uint4* memory, GroupThread g) {
  enum : uint { kLines = Shape::rows / Shape::passes, kOwners = 4 / Shape::passes };
  threadgroup T* staged = (threadgroup T*)memory;
  const uint own = g.index / g.width;
#pragma unroll
  for (uint pass = 0; pass < Shape::passes; ++pass) {
    TileShare<T, kLines, Shape::size, kAttentionThreads> share;
    share.load(rows, row + pass * kLines, 0, g.index);
    tg_barrier();
    share.store(rows, staged, Shape::stride, g.index);
    tg_barrier();
    if (own / kOwners != pass) continue;
#pragma unroll
    for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
      for (uint k = 0; k < Shape::deep; ++k)
        simdgroup_load(to[i][k], staged + (own % kOwners * Shape::own_rows + i * 8) * Shape::stride + k * 8,
                       Shape::stride);
  }
  tg_barrier();
}

// scores = left x the transposed rows in threadgroup memory.
template <typename Shape, typename T>
METAL_FUNC void make_scores(thread simdgroup_float8x8 (&scores)[Shape::down][Shape::across],
                            thread const simdgroup_matrix<T, 8, 8> (&left)[Shape::down][Shape::deep],
                            threadgroup const T* rows) {
#pragma unroll
  for (uint j = 0; j < Shape::across; ++j) {
#pragma unroll
    for (uint i = 0; i < Shape::down; ++i) scores[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
    for (uint k = 0; k < Shape::deep; ++k) {
      simdgroup_matrix<T, 8, 8> right;
      simdgroup_load(right, rows + j * 8 * Shape::stride + k * 8, Shape::stride, ulong2(0), true);
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i)
        simdgroup_multiply_accumulate(scores[i][j], left[i][k], right, scores[i][j]);
    }
  }
}

// sums += weights x the rows in threadgroup memory.
template <typename Shape, typename T>
METAL_FUNC void add_weighted(thread simdgroup_float8x8 (&sums)[Shape::down][Shape::deep],
                             thread const simdgroup_float8x8 (&weights)[Shape::down][Shape::across],
                             threadgroup const T* rows) {
  simdgroup_matrix<T, 8, 8> left[Shape::down][Shape::across];
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
    for (uint j = 0; j < Shape::across; ++j) left[i][j].thread_elements() = vec<T, 2>(weights[i][j].thread_elements());
#pragma unroll
  for (uint e = 0; e < Shape::deep; ++e)
#pragma unroll
    for (uint j = 0; j < Shape::across; ++j) {
      simdgroup_matrix<T, 8, 8> right;
      simdgroup_load(right, rows + j * 8 * Shape::stride + e * 8, Shape::stride);
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i) simdgroup_multiply_accumulate(sums[i][e], left[i][j], right, sums[i][e]);
    }
}

template <typename Shape>
METAL_FUNC void clear(thread simdgroup_float8x8 (&sums)[Shape::down][Shape::deep]) {
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
    for (uint e = 0; e < Shape::deep; ++e) sums[i][e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}

// Writes the sums of this lane within rows x size, times a factor of each row.
template <typename Shape, typename T>
METAL_FUNC void write_rows(device T* to, long stride, thread simdgroup_float8x8 (&sums)[Shape::down][Shape::deep],
                           thread const float (&factor)[Shape::down], uint row, uint rows, uint column, uint size) {
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) {
    if (row + i * 8 >= rows) continue;
    device T* line = to + long(row + i * 8) * stride + column;
#pragma unroll
    for (uint e = 0; e < Shape::deep; ++e)
#pragma unroll
      for (uint n = 0; n < 2; ++n)
        if (column + e * 8 + n < size) line[e * 8 + n] = T(sums[i][e].thread_elements()[n] * factor[i]);
  }
}

// A score as softmax takes it; -inf where a query does not look.
inline float score_of(float product, uint query, uint key, device const float* mask, constant AttentionParams& p) {
  const bool seen = query < p.queries && key < p.keys && !(p.causal && key > query);
  if (!seen) return -INFINITY;
  const float added = p.has_mask ? mask[long(query) * p.mask_row + long(key) * p.mask_column] : 0.0f;
  return product * p.scale + added;
}

// exp(x) of x <= 0. For weights of 16 bits the GPU's own exp2 is precise enough.
template <typename T>
inline float weight_of(float x) {
  return sizeof(T) == 2 ? fast::exp2(x * M_LOG2E_F) : exp_nonpositive(x);
}

// The factor of dropout for a weight, the same in every pass.
inline float dropout_factor(uint query, uint key, AttentionHead h, constant AttentionParams& p) {
  const ulong row = (ulong(h.batch) * p.heads + h.head) * p.queries + query;
  const PhiloxBlock r = philox(p.seed, p.first_block + row * ((p.keys + 3) / 4) + key / 4);
  const uint which = key % 4, word = which < 2 ? (which == 0 ? r.x : r.y) : (which == 2 ? r.z : r.w);
  return word <= p.bound ? p.kept_scale : 0.0f;
}
