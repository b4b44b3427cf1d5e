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
  const MatrixSource<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size, p);
  const MatrixSource<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size, p);
  const MatrixSource<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size, p);
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

// The sum of gradient times result of each query: what its weights' gradients have in common.
template <typename T>
kernel void attention_delta(device float* delta [[buffer(0)]], device const T* grad [[buffer(1)]],
                            device const T* out [[buffer(2)]], constant AttentionParams& p [[buffer(3)]],
                            uint3 gid [[thread_position_in_grid]]) {
  const AttentionHead h = {gid.z, gid.y};
  device const T* dy = h.in(grad, p.grad, 1) + long(gid.x) * p.grad.row;
  device const T* y = h.in(out, p.out, 1) + long(gid.x) * p.out.row;
  float sum = 0.0f;
  for (uint first = 0; first < p.value_size; first += 16) {
    float part = 0.0f;
    for (uint e = first, last = min(first + 16, p.value_size); e < last; ++e) part += float(dy[e]) * float(y[e]);
    sum += part;
  }
  delta[(ulong(h.batch) * p.heads + h.head) * p.queries + gid.x] = sum;
}

// Which gradient: those of key and value have keys for rows and queries for columns.
enum : uint { kOfQuery, kOfKey, kOfValue };

template <typename T, typename Shape, uint OF>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention_backward(device T* result [[buffer(0)]], device const float* log_sums [[buffer(1)]],
                               device const float* delta [[buffer(2)]], device const T* query [[buffer(3)]],
                               device const T* key [[buffer(4)]], device const T* value [[buffer(5)]],
                               device const T* grad [[buffer(6)]], device const float* mask [[buffer(7)]],
                               constant AttentionParams& p [[buffer(8)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  threadgroup T* near = (threadgroup T*)memory;  // rows of key or query, and below of value or the gradient
  threadgroup T* far = near + Shape::columns * Shape::stride;
  const uint rows = OF == kOfQuery ? p.queries : p.keys;
  const uint first = first_row(g.group.x, Shape::rows, rows, OF == kOfQuery && p.causal);
  const uint row = first + g.index / g.width * Shape::own_rows + element_row(g.lane);
  const uint heads = OF == kOfQuery ? 1 : p.shared, width = OF == kOfValue ? p.value_size : p.size;
  simdgroup_float8x8 sums[Shape::down][Shape::deep];
  clear<Shape>(sums);
  for (uint shared = 0; shared < heads; ++shared) {
    const AttentionHead h = {g.group.z, g.group.y * heads + shared};
    const MatrixSource<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size, p);
    const MatrixSource<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size, p);
    const MatrixSource<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size, p);
    const MatrixSource<T> dy = rows_of(h.in(grad, p.grad, 1), p.grad.row, p.queries, p.value_size, p);
    device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
    const ulong query_base = (ulong(h.batch) * p.heads + h.head) * p.queries;
    simdgroup_matrix<T, 8, 8> own[Shape::down][Shape::deep], other[Shape::down][Shape::deep];
    load_rows<Shape>(own, OF == kOfQuery ? q : k, first, memory, g);
    if (OF != kOfValue) load_rows<Shape>(other, OF == kOfQuery ? dy : v, first, memory, g);
    // Of a causal mask: keys after a query, queries before a key.
    const uint begin = OF != kOfQuery && p.causal ? first / Shape::columns * Shape::columns : 0;
    const uint end = OF != kOfQuery ? p.queries : p.causal ? min(p.keys, first + Shape::rows) : p.keys;
    for (uint block = begin; block < end; block += Shape::columns) {
      typename Shape::Share near_share, far_share;
      near_share.load(OF == kOfQuery ? k : q, block, 0, g.index);
      far_share.load(OF == kOfQuery ? v : dy, block, 0, g.index);
      tg_barrier();
      near_share.store(q, near, Shape::stride, g.index);
      far_share.store(q, far, Shape::stride, g.index);
      tg_barrier();
      simdgroup_float8x8 scores[Shape::down][Shape::across], others[Shape::down][Shape::across];
      make_scores<Shape>(scores, own, near);
      if (OF != kOfValue) make_scores<Shape>(others, other, far);
      const uint column = block + element_column(g.lane);
#pragma unroll
      for (uint j = 0; j < Shape::across; ++j)
#pragma unroll
        for (uint n = 0; n < 2; ++n)
#pragma unroll
          for (uint i = 0; i < Shape::down; ++i) {
            const uint r = row + i * 8, c = column + j * 8 + n;
            const uint at_query = OF == kOfQuery ? r : c, at_key = OF == kOfQuery ? c : r;
            const ulong at = query_base + min(at_query, p.queries - 1);
            const float score = score_of(scores[i][j].thread_elements()[n], at_query, at_key, added, p);
            const float log_sum = log_sums[at];
            const float weight = score == -INFINITY || log_sum == -INFINITY ? 0.0f : weight_of<T>(score - log_sum);
            const float kept = p.has_dropout ? dropout_factor(at_query, at_key, h, p) : 1.0f;
            float w = weight * kept;
            if (OF != kOfValue)
              w = weight == 0.0f ? 0.0f
                                 : weight * (others[i][j].thread_elements()[n] * kept - delta[at]) * p.scale;
            scores[i][j].thread_elements()[n] = w;
          }
      add_weighted<Shape>(sums, scores, OF == kOfValue ? far : near);
    }
  }
  float factor[Shape::down];
#pragma unroll
  for (uint i = 0; i < Shape::down; ++i) factor[i] = 1.0f;
  write_rows<Shape>(result + (long(g.group.z) * p.result.batch + long(g.group.y) * p.result.head), p.result.row, sums,
                    factor, row, rows, element_column(g.lane), width);
}

#define MPSX_ATTENTION_OF(SIZE, T, TAG)                                                                             \
  MPSX_KERNEL("attention_" #SIZE "_" #TAG, attention<T, AttentionShape<T, SIZE>>)                                   \
  MPSX_KERNEL("attention_backward_query_" #SIZE "_" #TAG, attention_backward<T, AttentionShape<T, SIZE>, kOfQuery>) \
  MPSX_KERNEL("attention_backward_key_" #SIZE "_" #TAG, attention_backward<T, AttentionShape<T, SIZE>, kOfKey>)     \
  MPSX_KERNEL("attention_backward_value_" #SIZE "_" #TAG, attention_backward<T, AttentionShape<T, SIZE>, kOfValue>)
#define MPSX_ATTENTION(T, TAG, ...)                            \
  MPSX_KERNEL("attention_delta_" #TAG, attention_delta<T>)     \
  MPSX_ATTENTION_OF(64, T, TAG)                                \
  MPSX_ATTENTION_OF(128, T, TAG)                               \
  MPSX_ATTENTION_OF(256, T, TAG)
MPSX_FOR_FLOAT(MPSX_ATTENTION)
