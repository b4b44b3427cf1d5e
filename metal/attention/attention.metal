// Attention without the matrix of its weights: softmax(query key^T * scale + mask) value, block by block, after T. Dao
// and others, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022), and its gradients.
#include "attention/attention.h"
#include "lib/instantiate.h"

// Where the columns from which `rows` from `row` on see nothing begin.
inline uint columns_seen(uint row, constant AttentionParams& p) {
  return p.causal ? min(p.keys, row + kRows) : p.keys;
}

template <typename T>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void attention(device T* out [[buffer(0)]], device float* log_sums [[buffer(1)]],
                      device const T* query [[buffer(2)]], device const T* key [[buffer(3)]],
                      device const T* value [[buffer(4)]], device const float* mask [[buffer(5)]],
                      constant AttentionParams& p [[buffer(6)]], threadgroup float* memory [[threadgroup(0)]],
                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const AttentionMemory m = attention_memory(memory);
  const AttentionHead h = {g.group.z, g.group.y};
  const uint row = g.group.x * kRows;
  const AttentionSource<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size);
  const AttentionSource<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size);
  const AttentionSource<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size);
  device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
  clear_sums(m, g);
  for (uint r = g.index; r < kRows; r += g.count) m.top[r] = -INFINITY, m.total[r] = 0.0f;
  for (uint column = 0, end = columns_seen(row, p); column < end; column += kColumns) {
    make_scores(m.scores, q, k, row, column, m, g);
    MPSX_EACH_SCORE(r, c) {
      const float s = m.scores[r * kScoreStride + c];
      m.scores[r * kScoreStride + c] = score_of(s, row + r, column + c, added, p);
    }
    tg_barrier();
    // The weights so far were relative to a smaller maximum. NaN goes through everything.
    for (uint r = g.index; r < kRows; r += g.count) {
      int best = ordered_max(m.top[r]);
      MPSX_REDUCE(max : best)
      for (uint c = 0; c < kColumns; ++c) {
        const int candidate = ordered_max(m.scores[r * kScoreStride + c]);
        best = best < candidate ? candidate : best;
      }
      const float top = value_of_max(best);
      m.factor[r] = top == -INFINITY ? 1.0f : precise::exp(m.top[r] - top);
      m.top[r] = top;
    }
    tg_barrier();
    MPSX_EACH_SCORE(r, c) {
      const float s = m.scores[r * kScoreStride + c], top = m.top[r];
      m.scores[r * kScoreStride + c] = precise::exp(s - (top == -INFINITY ? 0.0f : top));
    }
    for (uint i = g.index; i < kRows * kSumStride; i += g.count) m.sums[i] *= m.factor[i / kSumStride];
    tg_barrier();
    for (uint r = g.index; r < kRows; r += g.count) {
      float sum = 0.0f;
      MPSX_REDUCE(+ : sum)
      for (uint c = 0; c < kColumns; ++c) sum += m.scores[r * kScoreStride + c];
      m.total[r] = fma(m.total[r], m.factor[r], sum);
    }
    if (p.has_dropout) {
      tg_barrier();
      MPSX_EACH_SCORE(r, c) m.scores[r * kScoreStride + c] *= dropout_factor(row + r, column + c, h, p);
    }
    add_weighted(m.scores, v, column, m, g);
  }
  tg_barrier();
  device T* target = out + (long(h.batch) * p.out.batch + long(h.head) * p.out.head);
  const uint count = min(uint(kRows), p.queries - row);
  for (uint i = g.index; i < count * p.value_size; i += g.count) {
    const uint r = i / p.value_size, e = i % p.value_size;
    // A query that sees nothing has no weights.
    const float total = m.total[r];
    target[long(row + r) * p.out.row + e] = T(total == 0.0f ? 0.0f : m.sums[r * kSumStride + e] / total);
  }
  device float* logs = log_sums + (ulong(h.batch) * p.heads + h.head) * p.queries + row;
  for (uint r = g.index; r < count; r += g.count)
    logs[r] = m.total[r] == 0.0f ? -INFINITY : m.top[r] + precise::log(m.total[r]);
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

template <typename T, uint OF>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void attention_backward(device T* result [[buffer(0)]], device const float* log_sums [[buffer(1)]],
                               device const float* delta [[buffer(2)]], device const T* query [[buffer(3)]],
                               device const T* key [[buffer(4)]], device const T* value [[buffer(5)]],
                               device const T* grad [[buffer(6)]], device const float* mask [[buffer(7)]],
                               constant AttentionParams& p [[buffer(8)]], threadgroup float* memory [[threadgroup(0)]],
                               MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const AttentionMemory m = attention_memory(memory);
  const uint row = g.group.x * kRows;
  const uint heads = OF == kOfQuery ? 1 : p.shared, width = OF == kOfValue ? p.value_size : p.size;
  clear_sums(m, g);
  for (uint other = 0; other < heads; ++other) {
    const AttentionHead h = {g.group.z, g.group.y * heads + other};
    const AttentionSource<T> q = rows_of(h.in(query, p.query, 1), p.query.row, p.queries, p.size);
    const AttentionSource<T> k = rows_of(h.in(key, p.key, p.shared), p.key.row, p.keys, p.size);
    const AttentionSource<T> v = rows_of(h.in(value, p.value, p.shared), p.value.row, p.keys, p.value_size);
    const AttentionSource<T> dy = rows_of(h.in(grad, p.grad, 1), p.grad.row, p.queries, p.value_size);
    device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
    const ulong first = (ulong(h.batch) * p.heads + h.head) * p.queries;
    // Of a causal mask: keys after a query, queries before a key.
    const uint begin = OF != kOfQuery && p.causal ? row / kColumns * kColumns : 0;
    const uint end = OF == kOfQuery ? columns_seen(row, p) : p.queries;
    for (uint column = begin; column < end; column += kColumns) {
      make_scores(m.scores, OF == kOfQuery ? q : k, OF == kOfQuery ? k : q, row, column, m, g);
      if (OF != kOfValue) make_scores(m.others, OF == kOfQuery ? dy : v, OF == kOfQuery ? v : dy, row, column, m, g);
      tg_barrier();
      MPSX_EACH_SCORE(r, c) {
        const uint i = OF == kOfQuery ? row + r : column + c, j = OF == kOfQuery ? column + c : row + r;
        const uint at = r * kScoreStride + c;
        const float log_sum = i < p.queries ? log_sums[first + i] : -INFINITY;
        const float score = score_of(m.scores[at], i, j, added, p);
        const float weight = score == -INFINITY || log_sum == -INFINITY ? 0.0f : precise::exp(score - log_sum);
        const float kept = p.has_dropout ? dropout_factor(i, j, h, p) : 1.0f;
        if (OF == kOfValue) {
          m.scores[at] = weight * kept;
        } else {
          const float common = i < p.queries ? delta[first + i] : 0.0f;
          m.scores[at] = weight == 0.0f ? 0.0f : weight * (m.others[at] * kept - common) * p.scale;
        }
      }
      add_weighted(m.scores, OF == kOfQuery ? k : (OF == kOfKey ? q : dy), column, m, g);
    }
  }
  tg_barrier();
  const uint rows = OF == kOfQuery ? p.queries : p.keys, count = min(uint(kRows), rows - row);
  device T* target = result + (long(g.group.z) * p.result.batch + long(g.group.y) * p.result.head);
  for (uint i = g.index; i < count * width; i += g.count) {
    const uint r = i / width, e = i % width;
    target[long(row + r) * p.result.row + e] = T(m.sums[r * kSumStride + e]);
  }
}

#define MPSX_ATTENTION(T, TAG, ...)                                                 \
  MPSX_KERNEL("attention_" #TAG, attention<T>)                                      \
  MPSX_KERNEL("attention_delta_" #TAG, attention_delta<T>)                          \
  MPSX_KERNEL("attention_backward_query_" #TAG, attention_backward<T, kOfQuery>)    \
  MPSX_KERNEL("attention_backward_key_" #TAG, attention_backward<T, kOfKey>)        \
  MPSX_KERNEL("attention_backward_value_" #TAG, attention_backward<T, kOfValue>)
MPSX_FOR_FLOAT(MPSX_ATTENTION)
