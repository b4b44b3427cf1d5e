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
kernel void attention_backward(device T* result [[buffer(0)]], device T* of_value [[buffer(1)]],
                               device float* delta [[buffer(2)]], device const float* log_sums [[buffer(3)]],
                               device const T* query [[buffer(4)]], device const T* key [[buffer(5)]],
                               device const T* value [[buffer(6)]], device const T* grad [[buffer(7)]],
                               device const T* out [[buffer(8)]], device const float* mask [[buffer(9)]],
                               constant AttentionParams& p [[buffer(10)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint { kByQuery = OF == kOfQuery, kSlopes = OF != kOfValue, kWeights = OF / kOfValue };
  const uint rows = kByQuery ? p.queries : p.keys, columns = kByQuery ? p.keys : p.queries;
  const uint first = first_row(g.group.x, Shape::rows, rows, kByQuery && p.causal);
  const uint heads = kByQuery ? 1 : p.shared;
  device T* target = result + (long(g.group.z) * p.result.batch + long(g.group.y) * p.result.head);
  device T* value_target = of_value + (long(g.group.z) * p.of_value.batch + long(g.group.y) * p.of_value.head);
  for (uint row = first, last = min(first + Shape::rows, rows); row < last; ++row) {
    float sums[kAttentionSize], value_sums[kAttentionSize], weights[kWideBlock], slopes[kWideBlock];
    for (uint e = 0; e < kAttentionSize; ++e) sums[e] = value_sums[e] = 0.0f;
    for (uint shared = 0; shared < heads; ++shared) {
      const AttentionHead h = {g.group.z, g.group.y * heads + shared};
      device const T* q = h.in(query, p.query, 1);
      device const T* k = h.in(key, p.key, p.shared);
      device const T* v = h.in(value, p.value, p.shared);
      device const T* dy = h.in(grad, p.grad, 1);
      device const float* added =
          p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
      const ulong query_base = (ulong(h.batch) * p.heads + h.head) * p.queries;
      if (kByQuery) {
        float mean;
        wide_products(dy + long(row) * p.grad.row, h.in(out, p.out, 1) + long(row) * p.out.row, 0, 1, p.value_size,
                      &mean);
        delta[query_base + row] = mean;
      }
      // Rows: this side's, and the other's, of query and key and of gradient and value.
      device const T* own = kByQuery ? q + long(row) * p.query.row : k + long(row) * p.key.row;
      device const T* other = kByQuery ? dy + long(row) * p.grad.row : v + long(row) * p.value.row;
      device const T* near = kByQuery ? k : q;
      device const T* far = kByQuery ? v : dy;
      const long near_row = kByQuery ? p.key.row : p.query.row, far_row = kByQuery ? p.value.row : p.grad.row;
      for (uint block = 0; block < columns; block += kWideBlock) {
        const uint count = min(uint(kWideBlock), columns - block);
        wide_products(own, near + long(block) * near_row, near_row, count, p.size, weights);
        if (kSlopes) wide_products(other, far + long(block) * far_row, far_row, count, p.value_size, slopes);
        for (uint c = 0; c < count; ++c) {
          const uint at_query = kByQuery ? row : block + c, at_key = kByQuery ? block + c : row;
          const float score = score_of(weights[c], at_query, at_key, added, p);
          const float weight = exp_nonpositive(score - lacking(log_sums[query_base + at_query]));
          const float kept = p.has_dropout ? dropout_factor(at_query, at_key, h, p) : 1.0f;
          weights[c] = weight * kept;
          if (kSlopes) slopes[c] = slope_of(weight, slopes[c] * kept, delta[query_base + at_query]);
        }
        if (kWeights) wide_add(value_sums, weights, far + long(block) * far_row, far_row, count, p.value_size);
        if (kSlopes) wide_add(sums, slopes, near + long(block) * near_row, near_row, count, p.size);
      }
    }
    for (uint e = 0; e < p.size && kSlopes; ++e) target[long(row) * p.result.row + e] = T(sums[e] * p.scale);
    for (uint e = 0; e < p.value_size && kWeights; ++e) value_target[long(row) * p.of_value.row + e] = T(value_sums[e]);
  }
}
