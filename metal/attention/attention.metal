// Attention without the matrix of its weights: softmax(query key^T * scale + mask) value, block by block, after T. Dao
// and others, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022), and its gradients.
#include "attention/attention.h"
#include "lib/instantiate.h"

// Where a threadgroup's rows begin. A causal mask leaves the last ones most to do, so they come first.
inline uint first_row(uint group, uint rows, uint count, bool last_first) {
  return (last_first ? (count + rows - 1) / rows - 1 - group : group) * rows;
}
// The largest value, and the sum, of a row that four lanes of a SIMD group hold two columns of each of, as
// thread_elements() has them.
inline float row_max(float v) { return pair_max(v, 1, 8); }
inline float row_sum(float v) { return pair_sum(v, 1, 8); }
// This lane's row and first column in a matrix, as thread_elements() has them.
inline uint element_row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
inline uint element_column(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }

template <typename T, typename Shape>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention(device T* out [[buffer(0)]], device float* log_sums [[buffer(1)]],
                      device const T* query [[buffer(2)]], device const T* key [[buffer(3)]],
                      device const T* value [[buffer(4)]], device const float* mask [[buffer(5)]],
                      constant AttentionParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  threadgroup T* keys = (threadgroup T*)memory;
  threadgroup T* values = keys + Shape::columns * Shape::stride;
  const AttentionHead h = {g.group.z, g.group.y};
  const uint first = first_row(g.group.x, Shape::rows, p.queries, p.causal);
  const uint row = first + g.index / g.width * Shape::own_rows + element_row(g.lane);
  const AttentionRows<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size);
  const AttentionRows<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size);
  const AttentionRows<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size);
  device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
  simdgroup_matrix<T, 8, 8> own[Shape::down][Shape::deep];
  load_rows<Shape>(own, q, first, memory, g);
  simdgroup_float8x8 sums[Shape::down][Shape::deep];
  clear<Shape>(sums);
  float top[Shape::down], total[Shape::down];  // `total`: of this lane's columns
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) top[i] = -INFINITY, total[i] = 0.0f;
  const uint end = p.causal ? min(p.keys, first + Shape::rows) : p.keys;
  typename Shape::Share share;
  share.load(k, 0, 0, g.index);
  for (uint block = 0; block < end; block += Shape::columns) {
    share.store(k, keys, Shape::stride, g.index);
    tg_barrier();
    share.load(v, block, 0, g.index);
    simdgroup_float8x8 scores[Shape::down][Shape::across];
    make_scores<Shape>(scores, own, keys);
    const uint column = block + element_column(g.lane);
    const bool all_seen = block + Shape::columns <= (p.causal ? min(p.keys, first + 1) : p.keys);
    if (all_seen && !p.has_mask) {
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::across; ++j) scores[i][j].thread_elements() *= p.scale;
    } else {
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
          for (uint n = 0; n < 2; ++n) {
            const float s = scores[i][j].thread_elements()[n];
            scores[i][j].thread_elements()[n] = score_of(s, row + i * 8, column + j * 8 + n, added, p);
          }
    }
#pragma unroll
    for (uint i = 0; i < Shape::down; ++i) {
      float best = top[i];
#pragma unroll
      for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
        for (uint n = 0; n < 2; ++n) best = max(best, scores[i][j].thread_elements()[n]);
      best = row_max(best);
      // The weights so far were relative to a smaller maximum. NaN goes through exp.
      const float base = best == -INFINITY ? 0.0f : best, factor = weight_of<T>(top[i] - base);
      top[i] = best;
      total[i] *= factor;
#pragma unroll
      for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
        for (uint n = 0; n < 2; ++n) {
          const float weight = weight_of<T>(scores[i][j].thread_elements()[n] - base);
          total[i] += weight;
          scores[i][j].thread_elements()[n] = weight;
        }
#pragma unroll
      for (uint e = 0; e < Shape::deep; ++e) sums[i][e].thread_elements() *= factor;
    }
    if (p.has_dropout)
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
          for (uint n = 0; n < 2; ++n)
            scores[i][j].thread_elements()[n] *= dropout_factor(row + i * 8, column + j * 8 + n, h, p);
    share.store(v, values, Shape::stride, g.index);
    tg_barrier();
    if (block + Shape::columns < end) share.load(k, block + Shape::columns, 0, g.index);
    add_weighted<Shape>(sums, scores, values);
  }
  float factor[Shape::down];
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) {
    total[i] = row_sum(total[i]);
    factor[i] = total[i] == 0.0f ? 0.0f : 1.0f / total[i];  // a query that sees nothing has no weights
    if (element_column(g.lane) == 0 && row + i * 8 < p.queries)
      log_sums[(ulong(h.batch) * p.heads + h.head) * p.queries + row + i * 8] =
          total[i] == 0.0f ? -INFINITY : top[i] + precise::log(total[i]);
  }
  write_rows<Shape>(out + (long(h.batch) * p.out.batch + long(h.head) * p.out.head), p.out.row, sums, factor, row,
                    p.queries, element_column(g.lane), p.value_size);
}

// The gradients that a kernel computes: the query's has queries for rows and keys for columns, the others the reverse.
enum : uint { kOfQuery = 1, kOfKey = 2, kOfValue = 4 };

// The logarithm of a row's sum as a weight's exponent lacks it. Where a query sees nothing its weights are zero.
inline float lacking(float log_sum) { return log_sum == -INFINITY ? INFINITY : log_sum; }
// The gradient of a score: its weight times the difference of the weight's gradient from the row's mean.
inline float slope_of(float weight, float of_weight, float mean) {
  return weight == 0.0f ? 0.0f : weight * (of_weight - mean);
}

// The query's comes first: it leaves in `delta` the sum of gradient times result of each query, which is what the
// gradients of its weights have for a mean.
template <typename T, typename Shape, uint OF>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention_backward(device T* result [[buffer(0)]], device T* of_value [[buffer(1)]],
                               device float* delta [[buffer(2)]], device const float* log_sums [[buffer(3)]],
                               device const T* query [[buffer(4)]], device const T* key [[buffer(5)]],
                               device const T* value [[buffer(6)]], device const T* grad [[buffer(7)]],
                               device const T* out [[buffer(8)]], device const float* mask [[buffer(9)]],
                               constant AttentionParams& p [[buffer(10)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint { kByQuery = OF == kOfQuery, kSlopes = OF != kOfValue, kWeights = OF / kOfValue };
  threadgroup uint4 memory[Shape::memory];
  threadgroup float2 columns[kByQuery ? 1 : Shape::columns];  // of each query in `memory`, the log-sum and delta
  threadgroup T* near = (threadgroup T*)memory;  // rows of key or query, and below of value or the gradient
  threadgroup T* far = near + Shape::columns * Shape::stride;
  const uint rows = kByQuery ? p.queries : p.keys;
  const uint first = first_row(g.group.x, Shape::rows, rows, kByQuery && p.causal);
  const uint own_first = first + g.index / g.width * Shape::own_rows, row = own_first + element_row(g.lane);
  const uint heads = kByQuery ? 1 : p.shared;
  simdgroup_matrix<T, 8, 8> own[Shape::down][Shape::deep], other[Shape::down][Shape::deep];
  simdgroup_float8x8 sums[Shape::down][Shape::deep], value_sums[Shape::down][Shape::deep];
  clear<Shape>(sums);
  clear<Shape>(value_sums);
  if (!kByQuery) {
    const AttentionHead h = {g.group.z, g.group.y * heads};
    load_rows<Shape>(own, rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size), first, memory, g);
    if (kSlopes)
      load_rows<Shape>(other, rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size), first, memory,
                       g);
  }
  for (uint shared = 0; shared < heads; ++shared) {
    const AttentionHead h = {g.group.z, g.group.y * heads + shared};
    const AttentionRows<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size);
    const AttentionRows<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size);
    const AttentionRows<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size);
    const AttentionRows<T> dy = rows_of(h.in(grad, p.grad, 1), p.grad.row, p.queries, p.value_size);
    device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
    const ulong query_base = (ulong(h.batch) * p.heads + h.head) * p.queries;
    float logs[Shape::down], means[Shape::down];
    if (kByQuery) {
      const AttentionRows<T> y = rows_of(h.in(out, p.out, 1), p.out.row, p.queries, p.value_size);
      load_rows<Shape>(other, dy, first, memory, g);
      load_rows<Shape>(own, y, first, memory, g);
#pragma unroll
      for (uint i = 0; i < Shape::down; ++i) {
        means[i] = 0.0f;
#pragma unroll
        for (uint e = 0; e < Shape::deep; ++e)
#pragma unroll
          for (uint n = 0; n < 2; ++n)
            means[i] += float(other[i][e].thread_elements()[n]) * float(own[i][e].thread_elements()[n]);
        means[i] = row_sum(means[i]);
        const bool there = row + i * 8 < p.queries;
        logs[i] = there ? lacking(log_sums[query_base + row + i * 8]) : INFINITY;
        if (there && element_column(g.lane) == 0) delta[query_base + row + i * 8] = means[i];
      }
      load_rows<Shape>(own, q, first, memory, g);
    }
    // Of a causal mask: keys after a query, queries before a key.
    const uint begin = !kByQuery && p.causal ? first / Shape::columns * Shape::columns : 0;
    const uint end = !kByQuery ? p.queries : p.causal ? min(p.keys, first + Shape::rows) : p.keys;
    // The part of it that a SIMD group's own rows see.
    const uint seen_first = !kByQuery && p.causal ? own_first : 0;
    const uint seen_end = kByQuery && p.causal ? min(end, own_first + Shape::own_rows) : end;
    typename Shape::Share near_share, far_share;
    near_share.load(kByQuery ? k : q, begin, 0, g.index);
    far_share.load(kByQuery ? v : dy, begin, 0, g.index);
    for (uint block = begin; block < end; block += Shape::columns) {
      near_share.store(q, near, Shape::stride, g.index);
      far_share.store(q, far, Shape::stride, g.index);
      if (!kByQuery && g.index < Shape::columns) {
        const uint at = block + g.index;
        const bool there = at < p.queries;
        columns[g.index] =
            there ? float2(lacking(log_sums[query_base + at]), delta[query_base + at]) : float2(INFINITY);
      }
      tg_barrier();
      if (block + Shape::columns < end) {
        near_share.load(kByQuery ? k : q, block + Shape::columns, 0, g.index);
        far_share.load(kByQuery ? v : dy, block + Shape::columns, 0, g.index);
      }
      for (uint at = 0; at < Shape::columns; at += Shape::step) {
        const uint step_first = block + at, column = step_first + element_column(g.lane);
        if (step_first + Shape::step <= seen_first || step_first >= seen_end) continue;
        simdgroup_float8x8 weights[Shape::down][Shape::across], slopes[Shape::down][Shape::across];
        make_scores<Shape>(weights, own, near + at * Shape::stride);
        if (kSlopes) make_scores<Shape>(slopes, other, far + at * Shape::stride);
        const uint last_key = kByQuery ? step_first + Shape::step - 1 : own_first + Shape::own_rows - 1;
        const bool all_seen =
            step_first + Shape::step <= end && (!p.causal || last_key <= (kByQuery ? own_first : step_first));
        if (all_seen && !p.has_mask) {
#pragma unroll
          for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::across; ++j) weights[i][j].thread_elements() *= p.scale;
        } else {
#pragma unroll
          for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
              for (uint n = 0; n < 2; ++n) {
                const uint r = row + i * 8, c = column + j * 8 + n;
                const float s = weights[i][j].thread_elements()[n];
                weights[i][j].thread_elements()[n] = score_of(s, kByQuery ? r : c, kByQuery ? c : r, added, p);
              }
        }
        simdgroup_float8x8 kept[Shape::down][Shape::across];
        if (p.has_dropout)
#pragma unroll
          for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
              for (uint n = 0; n < 2; ++n) {
                const uint r = row + i * 8, c = column + j * 8 + n;
                kept[i][j].thread_elements()[n] = dropout_factor(kByQuery ? r : c, kByQuery ? c : r, h, p);
                if (kSlopes) slopes[i][j].thread_elements()[n] *= kept[i][j].thread_elements()[n];
              }
#pragma unroll
        for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
          for (uint n = 0; n < 2; ++n) {
            const float2 of_column = kByQuery ? float2(0.0f) : columns[at + element_column(g.lane) + j * 8 + n];
#pragma unroll
            for (uint i = 0; i < Shape::down; ++i) {
              const float log_sum = kByQuery ? logs[i] : of_column.x, mean = kByQuery ? means[i] : of_column.y;
              const float weight = weight_of<T>(weights[i][j].thread_elements()[n] - log_sum);
              weights[i][j].thread_elements()[n] = weight;
              if (kSlopes)
                slopes[i][j].thread_elements()[n] = slope_of(weight, slopes[i][j].thread_elements()[n], mean);
            }
          }
        if (kWeights && p.has_dropout)
#pragma unroll
          for (uint i = 0; i < Shape::down; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::across; ++j) weights[i][j].thread_elements() *= kept[i][j].thread_elements();
        if (kWeights) add_weighted<Shape>(value_sums, weights, far + at * Shape::stride);
        if (kSlopes) add_weighted<Shape>(sums, slopes, near + at * Shape::stride);
      }
      tg_barrier();
    }
  }
  float factor[Shape::down];
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) factor[i] = p.scale;
  if (kSlopes)
    write_rows<Shape>(result + (long(g.group.z) * p.result.batch + long(g.group.y) * p.result.head), p.result.row, sums,
                      factor, row, rows, element_column(g.lane), p.size);
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) factor[i] = 1.0f;
  if (kWeights)
    write_rows<Shape>(of_value + (long(g.group.z) * p.of_value.batch + long(g.group.y) * p.of_value.head),
                      p.of_value.row, value_sums, factor, row, rows, element_column(g.lane), p.value_size);
}

// 16-bit rows are taken in two steps, so that scores and sums fit registers; floats in one, so that few are reloaded.
template <typename T, uint SIZE>
using BackwardShape = AttentionShape<T, SIZE, 4 / sizeof(T)>;
// Of narrow heads, one kernel has the sums of both gradients in registers.
#define MPSX_ATTENTION_OF(SIZE, T, TAG)                                           \
  MPSX_KERNEL("attention_" #SIZE "_" #TAG, attention<T, AttentionShape<T, SIZE>>) \
  MPSX_KERNEL("attention_backward_query_" #SIZE "_" #TAG, attention_backward<T, BackwardShape<T, SIZE>, kOfQuery>)
#define MPSX_ATTENTION_WIDE(SIZE, T, TAG)                                                                      \
  MPSX_ATTENTION_OF(SIZE, T, TAG)                                                                              \
  MPSX_KERNEL("attention_backward_key_" #SIZE "_" #TAG, attention_backward<T, BackwardShape<T, SIZE>, kOfKey>) \
  MPSX_KERNEL("attention_backward_value_" #SIZE "_" #TAG, attention_backward<T, BackwardShape<T, SIZE>, kOfValue>)
#define MPSX_ATTENTION(T, TAG, ...)                                                       \
  MPSX_ATTENTION_OF(64, T, TAG)                                                           \
  MPSX_KERNEL("attention_backward_key_value_64_" #TAG,                                    \
              attention_backward<T, BackwardShape<T, 64>, uint(kOfKey) | uint(kOfValue)>) \
  MPSX_ATTENTION_WIDE(128, T, TAG)                                                        \
  MPSX_ATTENTION_WIDE(256, T, TAG)
MPSX_FOR_FLOAT(MPSX_ATTENTION)
