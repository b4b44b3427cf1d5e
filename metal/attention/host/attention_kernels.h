// Attention on the host driver, where each threadgroup is a single thread. Computes S one row at a time, in blocks of
// columns.
#pragma once

enum : uint { kWideBlock = 64 };

// Computes dots[c] = dot(row, rows[c]) for c < count.
template <typename T>
inline void wide_dots(device const T* row, device const T* rows, long stride, uint count, uint dim,
                      thread float* dots) {
  for (uint c = 0; c < count; ++c) {
    device const T* x = rows + long(c) * stride;
    float sum = 0.0f;
    MPSX_REDUCE(+ : sum)
    for (uint e = 0; e < dim; ++e) sum += float(row[e]) * float(x[e]);
    dots[c] = sum;
  }
}
// acc += sum of weights[c] * rows[c] over c, for example O += P V.
template <typename T>
inline void wide_accumulate(thread float* acc, thread const float* weights, device const T* rows, long stride,
                            uint count, uint dim) {
  for (uint c = 0; c < count; ++c) {
    device const T* x = rows + long(c) * stride;
    const float weight = weights[c];
    MPSX_VECTORIZE
    for (uint e = 0; e < dim; ++e) acc[e] += weight * float(x[e]);
  }
}

template <typename T, typename Shape>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention(device T* O [[buffer(0)]], device float* lse [[buffer(1)]], device const T* Q [[buffer(2)]],
                      device const T* K [[buffer(3)]], device const T* V [[buffer(4)]],
                      device const T* mask [[buffer(5)]], device const uchar* mask_kinds [[buffer(6)]],
                      device const ulong* seed [[buffer(7)]], device const ulong* offset [[buffer(8)]],
                      constant AttentionParams& p [[buffer(9)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  const AttentionHead h = {g.group.z, g.group.y};
  device const T* q_rows = h.in(Q, p.Q, 1);
  device const T* k_rows = h.in(K, p.K, p.gqa_factor);
  device const T* v_rows = h.in(V, p.V, p.gqa_factor);
  mask = head_mask(mask, h, p);
  device T* o_rows = O + (long(h.batch) * p.O.batch + long(h.head) * p.O.head);
  device float* row_lse = lse + (ulong(h.batch) * p.q_heads + h.head) * p.q_len;
  const uint row_start = tile_start(g.group.x, Shape::rows, p.q_len, p.causal | p.has_mask);
  const auto tiles = mask_tiles<Shape::rows, kWideBlock, true>(mask_kinds, row_start, h.batch, h.head, p);
  for (uint row = row_start, last = min(row_start + Shape::rows, p.q_len); row < last; ++row) {
    float O_acc[kMaxHeadDim], S[kWideBlock], row_max = -INFINITY, row_sum = 0.0f;
    for (uint e = 0; e < p.v_head_dim; ++e) O_acc[e] = 0.0f;
    const uint end = p.causal ? min(p.kv_len, row + 1) : p.kv_len;
    for (uint block = tiles.next(0, end); block < end; block = tiles.next(block + kWideBlock, end)) {
      const uint count = min(uint(kWideBlock), end - block);
      const bool reads_mask = tiles.adds(block, p);
      wide_dots(q_rows + long(row) * p.Q.row, k_rows + long(block) * p.K.row, p.K.row, count, p.head_dim, S);
      float new_max = row_max, sum = 0.0f;
      for (uint c = 0; c < count; ++c) {
        S[c] = masked_score(S[c], row, block + c, reads_mask, mask, p);
        new_max = max(new_max, S[c]);
      }
      const float base = new_max == -INFINITY ? 0.0f : new_max, rescale = exp_nonpositive(row_max - base);
      for (uint c = 0; c < count; ++c) S[c] = exp_nonpositive(S[c] - base), sum += S[c];
      row_max = new_max;
      row_sum = fma(row_sum, rescale, sum);
      for (uint c = 0; c < count && p.has_dropout; ++c) S[c] *= dropout_scale(row, block + c, h, random, p);
      for (uint e = 0; e < p.v_head_dim; ++e) O_acc[e] *= rescale;
      wide_accumulate(O_acc, S, v_rows + long(block) * p.V.row, p.V.row, count, p.v_head_dim);
    }
    const float scale = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
    for (uint e = 0; e < p.v_head_dim; ++e) o_rows[long(row) * p.O.row + e] = T(O_acc[e] * scale);
    row_lse[row] = row_sum == 0.0f ? -INFINITY : row_max + precise::log(row_sum);
  }
}

template <typename T, typename Shape, uint GRAD>
[[max_total_threads_per_threadgroup(kAttentionThreads)]]
kernel void attention_backward(device T* dQK [[buffer(0)]], device T* dV [[buffer(1)]],
                               device float* delta [[buffer(2)]], device const float* lse [[buffer(3)]],
                               device const T* Q [[buffer(4)]], device const T* K [[buffer(5)]],
                               device const T* V [[buffer(6)]], device const T* dO [[buffer(7)]],
                               device const T* O [[buffer(8)]], device const T* mask [[buffer(9)]],
                               device const uchar* mask_kinds [[buffer(10)]], device const ulong* seed [[buffer(11)]],
                               device const ulong* offset [[buffer(12)]], constant AttentionParams& p [[buffer(13)]],
                               MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  enum : uint { kRowsAreQueries = GRAD == kGradQ, kComputesDS = GRAD != kGradV, kComputesDV = GRAD / kGradV };
  const uint rows = kRowsAreQueries ? p.q_len : p.kv_len, columns = kRowsAreQueries ? p.kv_len : p.q_len;
  const uint row_start = tile_start(g.group.x, Shape::rows, rows, kRowsAreQueries && (p.causal | p.has_mask));
  const uint heads = kRowsAreQueries ? 1 : p.gqa_factor;
  device T* dqk_rows = dQK + (long(g.group.z) * p.dQK.batch + long(g.group.y) * p.dQK.head);
  device T* dv_rows = dV + (long(g.group.z) * p.dV.batch + long(g.group.y) * p.dV.head);
  for (uint row = row_start, last = min(row_start + Shape::rows, rows); row < last; ++row) {
    float dQK_acc[kMaxHeadDim], dV_acc[kMaxHeadDim], P[kWideBlock], dS[kWideBlock];
    for (uint e = 0; e < kMaxHeadDim; ++e) dQK_acc[e] = dV_acc[e] = 0.0f;
    for (uint q_head = 0; q_head < heads; ++q_head) {  // the query heads that share this KV head
      const AttentionHead h = {g.group.z, g.group.y * heads + q_head};
      device const T* q_rows = h.in(Q, p.Q, 1);
      device const T* k_rows = h.in(K, p.K, p.gqa_factor);
      device const T* v_rows = h.in(V, p.V, p.gqa_factor);
      device const T* do_rows = h.in(dO, p.dO, 1);
      device const T* const mask_of_head = head_mask(mask, h, p);
      const auto tiles =
          mask_tiles<Shape::rows, kWideBlock, kRowsAreQueries>(mask_kinds, row_start, h.batch, h.head, p);
      const ulong stats_offset = (ulong(h.batch) * p.q_heads + h.head) * p.q_len;
      if (kRowsAreQueries) {
        float row_delta;
        wide_dots(do_rows + long(row) * p.dO.row, h.in(O, p.O, 1) + long(row) * p.O.row, 0, 1, p.v_head_dim,
                  &row_delta);
        delta[stats_offset + row] = row_delta;
      }
      // In the dQ pass, the row is a query (Q, dO) and the columns are keys (K, V). In the dK and dV passes, the row is
      // a key and the columns are queries.
      device const T* qk_row = kRowsAreQueries ? q_rows + long(row) * p.Q.row : k_rows + long(row) * p.K.row;
      device const T* vo_row = kRowsAreQueries ? do_rows + long(row) * p.dO.row : v_rows + long(row) * p.V.row;
      device const T* qk_columns = kRowsAreQueries ? k_rows : q_rows;
      device const T* vo_columns = kRowsAreQueries ? v_rows : do_rows;
      const long qk_stride = kRowsAreQueries ? p.K.row : p.Q.row, vo_stride = kRowsAreQueries ? p.V.row : p.dO.row;
      for (uint block = tiles.next(0, columns); block < columns; block = tiles.next(block + kWideBlock, columns)) {
        const uint count = min(uint(kWideBlock), columns - block);
        const bool reads_mask = tiles.adds(block, p);
        wide_dots(qk_row, qk_columns + long(block) * qk_stride, qk_stride, count, p.head_dim, P);
        if (kComputesDS) wide_dots(vo_row, vo_columns + long(block) * vo_stride, vo_stride, count, p.v_head_dim, dS);
        for (uint c = 0; c < count; ++c) {
          const uint query = kRowsAreQueries ? row : block + c, key = kRowsAreQueries ? block + c : row;
          const float score = masked_score(P[c], query, key, reads_mask, mask_of_head, p);
          const float prob = exp_nonpositive(score - lse_to_subtract(lse[stats_offset + query]));
          const float dropout = p.has_dropout ? dropout_scale(query, key, h, random, p) : 1.0f;
          P[c] = prob * dropout;
          if (kComputesDS) dS[c] = score_grad(prob, dS[c] * dropout, delta[stats_offset + query]);
        }
        if (kComputesDV)
          wide_accumulate(dV_acc, P, vo_columns + long(block) * vo_stride, vo_stride, count, p.v_head_dim);
        if (kComputesDS)
          wide_accumulate(dQK_acc, dS, qk_columns + long(block) * qk_stride, qk_stride, count, p.head_dim);
      }
    }
    for (uint e = 0; e < p.head_dim && kComputesDS; ++e) dqk_rows[long(row) * p.dQK.row + e] = T(dQK_acc[e] * p.scale);
    for (uint e = 0; e < p.v_head_dim && kComputesDV; ++e) dv_rows[long(row) * p.dV.row + e] = T(dV_acc[e]);
  }
}
