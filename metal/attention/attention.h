// Shared by the passes of attention: blocks of scores, their softmax weights, and sums of values weighted with these.
#pragma once

#include "attention/attention_params.h"
#include "lib/math.h"
#include "lib/random.h"
#include "lib/collective.h"
#include "lib/tile_params.h"

enum : uint { kTilePad = 4 };  // floats between rows, so that a column is not in one bank
enum : uint { kRows = kAttentionRows, kColumns = kAttentionColumns };
enum : uint {
  kSumStride = kAttentionSize + kTilePad,
  kScoreStride = kColumns + kTilePad,
  kLeftStride = kAttentionDepth + kTilePad,
  kValueStride = kAttentionWidth + kTilePad,
};

// Element (row, column) of a matrix in memory, of any strides.
template <typename T>
struct AttentionSource {
  device const T* data;
  long row_stride, column_stride;
  uint rows, columns;

  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width,
             GroupThread g) const {
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

// Threadgroup memory.
struct AttentionMemory {
  threadgroup float *sums, *scores, *others, *staged, *top, *total, *factor;
};
inline AttentionMemory attention_memory(threadgroup float* memory) {
  AttentionMemory m;
  m.sums = memory;
  m.scores = m.sums + kRows * kSumStride;
  m.others = m.scores + kRows * kScoreStride;
  m.top = m.others + kRows * kScoreStride;
  m.total = m.top + kRows;
  m.factor = m.total + kRows;
  m.staged = m.factor + 2 * kRows;
  return m;
}

// The scores of this thread: row r, column c.
#define MPSX_EACH_SCORE(r, c)                                                    \
  for (uint r = g.index / kColumns; r < kRows; r += max(g.count / kColumns, 1u)) \
    for (uint c = g.index % kColumns; c < kColumns; c += g.count)

template <typename T>
inline AttentionSource<T> rows_of(device const T* data, long stride, uint rows, uint size) {
  return {data, stride, 1, rows, size};
}
template <typename T>
inline AttentionSource<T> transposed(AttentionSource<T> m) {
  return {m.data, m.column_stride, m.row_stride, m.columns, m.rows};
}

// scores = the products of `left`'s rows from `row` on with `right`'s rows from `column` on.
template <typename T>
inline void make_scores(threadgroup float* scores, AttentionSource<T> left, AttentionSource<T> right, uint row, uint column,
                        AttentionMemory m, GroupThread g) {
  const AttentionSource<T> across = transposed(right);
  threadgroup float* a = m.staged;
  threadgroup float* b = a + kRows * kLeftStride;
  tg_barrier();
  MPSX_EACH_SCORE(r, c) scores[r * kScoreStride + c] = 0.0f;
  for (uint k = 0; k < left.columns; k += kAttentionDepth) {
    const uint deep = min(uint(kAttentionDepth), (left.columns - k + 7) / 8 * 8);
    if (k > 0) tg_barrier();
    left.stage(a, kLeftStride, row, k, kRows, deep, g);
    across.stage(b, kScoreStride, k, column, deep, kColumns, g);
    tg_barrier();
    block_product(scores, kScoreStride, a, kLeftStride, b, kScoreStride, kRows, kColumns, deep, g);
  }
}

// sums += scores x the rows of `values` from `column` on.
template <typename T>
inline void add_weighted(threadgroup float* scores, AttentionSource<T> values, uint column, AttentionMemory m,
                         GroupThread g) {
  for (uint e = 0; e < values.columns; e += kAttentionWidth) {
    const uint width = min(uint(kAttentionWidth), (values.columns - e + 31) / 32 * 32);
    tg_barrier();
    values.stage(m.staged, kValueStride, column, e, kColumns, width, g);
    tg_barrier();
    block_product(m.sums + e, kSumStride, scores, kScoreStride, m.staged, kValueStride, kRows, width, kColumns, g);
  }
}

inline void clear_sums(AttentionMemory m, GroupThread g) {
  for (uint i = g.index; i < kRows * kSumStride; i += g.count) m.sums[i] = 0.0f;
}

// Where one head of one batch is.
struct AttentionHead {
  uint batch, head;
  template <typename T>
  device const T* in(device const T* data, AttentionStrides s, uint shared) const {
    return data + (long(batch) * s.batch + long(head / shared) * s.head);
  }
};

// A score as softmax takes it; -inf where a query does not look.
inline float score_of(float product, uint query, uint key, device const float* mask, constant AttentionParams& p) {
  const bool seen = query < p.queries && key < p.keys && !(p.causal && key > query);
  if (!seen) return -INFINITY;
  const float added = p.has_mask ? mask[long(query) * p.mask_row + long(key) * p.mask_column] : 0.0f;
  return product * p.scale + added;
}

// The factor of dropout for a weight, the same in every pass.
inline float dropout_factor(uint query, uint key, AttentionHead h, constant AttentionParams& p) {
  const ulong row = (ulong(h.batch) * p.heads + h.head) * p.queries + query;
  const PhiloxBlock r = philox(p.seed, p.first_block + row * ((p.keys + 3) / 4) + key / 4);
  const uint which = key % 4, word = which < 2 ? (which == 0 ? r.x : r.y) : (which == 2 ? r.z : r.w);
  return word <= p.bound ? p.kept_scale : 0.0f;
}
