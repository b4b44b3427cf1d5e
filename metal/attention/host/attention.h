// Attention where a threadgroup is one thread: a row at a time, and blocks of the rows on the other side.
#pragma once

enum : uint { kWideBlock = 64 };

// products[c] = `row` times each of `count` rows from `other` on.
template <typename T>
inline void wide_products(device const T* row, device const T* other, long stride, uint count, uint size,
                          thread float* products) {
  for (uint c = 0; c < count; ++c) {
    device const T* with = other + long(c) * stride;
    float sum = 0.0f;
    MPSX_REDUCE(+ : sum)
    for (uint e = 0; e < size; ++e) sum += float(row[e]) * float(with[e]);
    products[c] = sum;
  }
}
// sums += weights times the rows from `other` on.
template <typename T>
inline void wide_add(thread float* sums, thread const float* weights, device const T* other, long stride, uint count,
                     uint size) {
  for (uint c = 0; c < count; ++c) {
    device const T* with = other + long(c) * stride;
    const float weight = weights[c];
    MPSX_VECTORIZE
    for (uint e = 0; e < size; ++e) sums[e] += weight * float(with[e]);
  }
}

template <typename T, typename Shape>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention(device T* out [[buffer(0)]], device float* log_sums [[buffer(1)]],
                      device const T* query [[buffer(2)]], device const T* key [[buffer(3)]],
                      device const T* value [[buffer(4)]], device const float* mask [[buffer(5)]],
                      constant AttentionParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const AttentionHead h = {g.group.z, g.group.y};
  device const T* q = h.in(query, p.query, 1);
  device const T* k = h.in(key, p.key, p.shared);
  device const T* v = h.in(value, p.value, p.shared);
  device const float* added = p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
  device T* target = out + (long(h.batch) * p.out.batch + long(h.head) * p.out.head);
  device float* logs = log_sums + (ulong(h.batch) * p.heads + h.head) * p.queries;
  const uint first = first_row(g.group.x, Shape::rows, p.queries, p.causal);
  for (uint row = first, last = min(first + Shape::rows, p.queries); row < last; ++row) {
    float sums[kAttentionSize], scores[kWideBlock], top = -INFINITY, total = 0.0f;
    for (uint e = 0; e < p.value_size; ++e) sums[e] = 0.0f;
    const uint end = p.causal ? min(p.keys, row + 1) : p.keys;
    for (uint block = 0; block < end; block += kWideBlock) {
      const uint count = min(uint(kWideBlock), end - block);
      wide_products(q + long(row) * p.query.row, k + long(block) * p.key.row, p.key.row, count, p.size, scores);
      float best = top, sum = 0.0f;
      for (uint c = 0; c < count; ++c) {
        scores[c] = score_of(scores[c], row, block + c, added, p);
        best = max(best, scores[c]);
      }
      const float base = best == -INFINITY ? 0.0f : best, factor = exp_nonpositive(top - base);
      for (uint c = 0; c < count; ++c) scores[c] = exp_nonpositive(scores[c] - base), sum += scores[c];
      top = best;
      total = fma(total, factor, sum);
      for (uint c = 0; c < count && p.has_dropout; ++c) scores[c] *= dropout_factor(row, block + c, h, p);
      for (uint e = 0; e < p.value_size; ++e) sums[e] *= factor;
      wide_add(sums, scores, v + long(block) * p.value.row, p.value.row, count, p.value_size);
    }
    const float factor = total == 0.0f ? 0.0f : 1.0f / total;
    for (uint e = 0; e < p.value_size; ++e) target[long(row) * p.out.row + e] = T(sums[e] * factor);
    logs[row] = total == 0.0f ? -INFINITY : top + precise::log(total);
  }
}

template <typename T, typename Shape, uint OF>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention_backward(device T* result [[buffer(0)]], device const float* log_sums [[buffer(1)]],
                               device const float* delta [[buffer(2)]], device const T* query [[buffer(3)]],
                               device const T* key [[buffer(4)]], device const T* value [[buffer(5)]],
                               device const T* grad [[buffer(6)]], device const float* mask [[buffer(7)]],
                               constant AttentionParams& p [[buffer(8)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint rows = OF == kOfQuery ? p.queries : p.keys, columns = OF == kOfQuery ? p.keys : p.queries;
  const uint first = first_row(g.group.x, Shape::rows, rows, OF == kOfQuery && p.causal);
  const uint heads = OF == kOfQuery ? 1 : p.shared, width = OF == kOfValue ? p.value_size : p.size;
  device T* target = result + (long(g.group.z) * p.result.batch + long(g.group.y) * p.result.head);
  for (uint row = first, last = min(first + Shape::rows, rows); row < last; ++row) {
    float sums[kAttentionSize], scores[kWideBlock], others[kWideBlock];
    for (uint e = 0; e < width; ++e) sums[e] = 0.0f;
    for (uint shared = 0; shared < heads; ++shared) {
      const AttentionHead h = {g.group.z, g.group.y * heads + shared};
      device const T* q = h.in(query, p.query, 1);
      device const T* k = h.in(key, p.key, p.shared);
      device const T* v = h.in(value, p.value, p.shared);
      device const T* dy = h.in(grad, p.grad, 1);
      device const float* added =
          p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
      const ulong query_base = (ulong(h.batch) * p.heads + h.head) * p.queries;
      // Rows: this side's, and the other's, of query and key and of gradient and value.
      device const T* own = OF == kOfQuery ? q + long(row) * p.query.row : k + long(row) * p.key.row;
      device const T* other = OF == kOfQuery ? dy + long(row) * p.grad.row : v + long(row) * p.value.row;
      device const T* near = OF == kOfQuery ? k : q;
      device const T* far = OF == kOfQuery ? v : dy;
      const long near_row = OF == kOfQuery ? p.key.row : p.query.row;
      const long far_row = OF == kOfQuery ? p.value.row : p.grad.row;
      for (uint block = 0; block < columns; block += kWideBlock) {
        const uint count = min(uint(kWideBlock), columns - block);
        wide_products(own, near + long(block) * near_row, near_row, count, p.size, scores);
        if (OF != kOfValue) wide_products(other, far + long(block) * far_row, far_row, count, p.value_size, others);
        for (uint c = 0; c < count; ++c) {
          const uint at_query = OF == kOfQuery ? row : block + c, at_key = OF == kOfQuery ? block + c : row;
          const float score = score_of(scores[c], at_query, at_key, added, p);
          const float log_sum = log_sums[query_base + at_query];
          const float weight = score == -INFINITY || log_sum == -INFINITY ? 0.0f : precise::exp(score - log_sum);
          const float kept = p.has_dropout ? dropout_factor(at_query, at_key, h, p) : 1.0f;
          scores[c] = weight * kept;
          if (OF != kOfValue)
            scores[c] = weight == 0.0f ? 0.0f : weight * (others[c] * kept - delta[query_base + at_query]) * p.scale;
        }
        if (OF == kOfValue)
          wide_add(sums, scores, far + long(block) * far_row, far_row, count, width);
        else
          wide_add(sums, scores, near + long(block) * near_row, near_row, count, width);
      }
    }
    for (uint e = 0; e < width; ++e) target[long(row) * p.result.row + e] = T(sums[e]);
  }
}
