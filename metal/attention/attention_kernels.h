// The attention kernels, forward and backward. They compute O = softmax(Q K^T * scale + mask) V tile by tile, without
// storing S or P (T. Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022).
// Shape selects the fragment type, which determines the tier: simdgroup_matrix (attention.h) or matmul2d
// (attention_tensor.h).
#pragma once

#include "attention/attention.h"
#include "attention/attention_dropout.h"
#include "attention/attention_mask.h"

// Returns the first row of a threadgroup's tile. Under a causal mask the last query tiles attend to the most keys, so
// they are scheduled first.
inline uint tile_start(uint group, uint tile_rows, uint count, bool last_first) {
  return (last_first ? (count + tile_rows - 1) / tile_rows - 1 - group : group) * tile_rows;
}
// Reduce a row of a fragment. Four lanes share each row (see thread_elements()).
inline float reduce_row_max(float v) { return pair_max(v, 1, 8); }
inline float reduce_row_sum(float v) { return pair_sum(v, 1, 8); }
// Return the row and the first column of this lane's elements within a fragment.
inline uint element_row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
template <typename Shape>
inline uint element_column(uint lane) {
  return ((lane / 4 & 2) + lane % 2) * Shape::elements;
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
  threadgroup uint4 memory[Shape::memory];
  threadgroup T* K_tile = (threadgroup T*)memory;
  threadgroup T* V_tile = K_tile + Shape::columns * Shape::stride;
  const AttentionHead h = {g.group.z, g.group.y};
  const uint q_start = tile_start(g.group.x, Shape::rows, p.q_len, p.causal | p.has_mask);
  const uint row = q_start + g.index / g.width * Shape::simdgroup_rows + element_row(g.lane);
  const AttentionRows<T> q_rows = rows_of(h.in(Q, p.Q, 1), p.Q.row, p.q_len, p.head_dim);
  const AttentionRows<T> k_rows = rows_of(h.in(K, p.K, p.gqa_factor), p.K.row, p.kv_len, p.head_dim);
  const AttentionRows<T> v_rows = rows_of(h.in(V, p.V, p.gqa_factor), p.V.row, p.kv_len, p.v_head_dim);
  mask = head_mask(mask, h, p);
  const auto tiles = mask_tiles<Shape::rows, Shape::columns, true>(mask_kinds, q_start, h.batch, h.head, p);
  typename Shape::Operand Q_frag[Shape::row_fragments][Shape::dim_fragments];
  load_fragments<Shape>(Q_frag, q_rows, q_start, memory, g);
  typename Shape::Accumulator O_acc[Shape::row_fragments][Shape::dim_fragments];
  clear<Shape>(O_acc);
  float row_max[Shape::row_fragments], row_sum[Shape::row_fragments];  // row_sum covers only this lane's columns
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i) row_max[i] = -INFINITY, row_sum[i] = 0.0f;
  const uint kv_end = p.causal ? min(p.kv_len, q_start + Shape::rows) : p.kv_len;
  typename Shape::Loader loader;
  uint next = tiles.next(0, kv_end);
  loader.load(k_rows, next, 0, g.index);
  while (next < kv_end) {
    const uint kv_start = next;
    loader.store(k_rows, K_tile, Shape::stride, g.index);
    tg_barrier();
    loader.load(v_rows, kv_start, 0, g.index);
    typename Shape::Accumulator S[Shape::row_fragments][Shape::column_fragments];  // S, overwritten by P
    compute_scores<Shape>(S, Q_frag, K_tile, g.lane);
    const uint column = kv_start + element_column<Shape>(g.lane);
    const bool all_visible = kv_start + Shape::columns <= (p.causal ? min(p.kv_len, q_start + 1) : p.kv_len);
    const bool reads_mask = tiles.adds(kv_start, p);
    if (all_visible && !reads_mask) {
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::column_fragments; ++j) S[i][j].thread_elements() *= p.scale;
    } else {
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
          for (uint n = 0; n < Shape::elements; ++n) {
            const float s = S[i][j].thread_elements()[n];
            S[i][j].thread_elements()[n] =
                masked_score(s, row + i * 8, column + j * Shape::fragment_columns + n, reads_mask, mask, p);
          }
    }
#pragma unroll
    for (uint i = 0; i < Shape::row_fragments; ++i) {
      float new_max = row_max[i];
#pragma unroll
      for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
        for (uint n = 0; n < Shape::elements; ++n) new_max = max(new_max, S[i][j].thread_elements()[n]);
      new_max = reduce_row_max(new_max);
      // Rescale the accumulators to the new maximum. max() ignores NaN scores, but exp() propagates them.
      const float base = new_max == -INFINITY ? 0.0f : new_max, rescale = exp_score<T>(row_max[i] - base);
      row_max[i] = new_max;
      row_sum[i] *= rescale;
#pragma unroll
      for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
        for (uint n = 0; n < Shape::elements; ++n) {
          const float prob = exp_score<T>(S[i][j].thread_elements()[n] - base);
          row_sum[i] += prob;
          S[i][j].thread_elements()[n] = prob;
        }
#pragma unroll
      for (uint e = 0; e < Shape::dim_fragments; ++e) O_acc[i][e].thread_elements() *= rescale;
    }
    if (p.has_dropout)
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
        for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
          for (uint n = 0; n < Shape::elements; ++n)
            S[i][j].thread_elements()[n] *=
                dropout_scale(row + i * 8, column + j * Shape::fragment_columns + n, h, random, p);
    loader.store(v_rows, V_tile, Shape::stride, g.index);
    tg_barrier();
    next = tiles.next(kv_start + Shape::columns, kv_end);
    if (next < kv_end) loader.load(k_rows, next, 0, g.index);
    accumulate<Shape>(O_acc, S, V_tile, g.lane);
  }
  float scale[Shape::row_fragments];
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i) {
    row_sum[i] = reduce_row_sum(row_sum[i]);
    scale[i] = row_sum[i] == 0.0f ? 0.0f : 1.0f / row_sum[i];  // A query that attends to no key yields 0.
    if (element_column<Shape>(g.lane) == 0 && row + i * 8 < p.q_len)
      lse[(ulong(h.batch) * p.q_heads + h.head) * p.q_len + row + i * 8] =
          row_sum[i] == 0.0f ? -INFINITY : row_max[i] + precise::log(row_sum[i]);
  }
  store_rows<Shape>(O + (long(h.batch) * p.O.batch + long(h.head) * p.O.head), p.O.row, O_acc, scale, row, p.q_len,
                    element_column<Shape>(g.lane), p.v_head_dim);
}

// The gradients that a pass computes. The dQ pass computes S, whose rows are queries. The dK and dV passes compute S^T.
enum : uint { kGradQ = 1, kGradK = 2, kGradV = 4 };

// The dQ pass runs first. It stores delta = rowsum(dO * O), which the other passes read.
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
  threadgroup uint4 memory[Shape::memory];
  threadgroup float2 column_stats[kRowsAreQueries ? 1 : Shape::columns];  // (lse, delta) of each query in the tile
  threadgroup T* qk_tile = (threadgroup T*)memory;                        // K for dQ, Q for dK and dV
  threadgroup T* vo_tile = qk_tile + Shape::columns * Shape::stride;
  const uint rows = kRowsAreQueries ? p.q_len : p.kv_len;
  const uint row_start = tile_start(g.group.x, Shape::rows, rows, kRowsAreQueries && (p.causal | p.has_mask));
  const uint simdgroup_start = row_start + g.index / g.width * Shape::simdgroup_rows;
  const uint row = simdgroup_start + element_row(g.lane);
  const uint heads = kRowsAreQueries ? 1 : p.gqa_factor;
  typename Shape::Operand qk_frag[Shape::row_fragments][Shape::dim_fragments];  // Q for dQ, K for dK and dV
  typename Shape::Operand vo_frag[Shape::row_fragments][Shape::dim_fragments];  // dO for dQ, V for dK and dV
  typename Shape::Accumulator dQK_acc[Shape::row_fragments][Shape::dim_fragments];
  typename Shape::Accumulator dV_acc[Shape::row_fragments][Shape::dim_fragments];
  clear<Shape>(dQK_acc);
  clear<Shape>(dV_acc);
  if (!kRowsAreQueries) {
    const AttentionHead h = {g.group.z, g.group.y * heads};
    load_fragments<Shape>(qk_frag, rows_of(h.in(K, p.K, p.gqa_factor), p.K.row, p.kv_len, p.head_dim), row_start,
                          memory, g);
    if (kComputesDS)
      load_fragments<Shape>(vo_frag, rows_of(h.in(V, p.V, p.gqa_factor), p.V.row, p.kv_len, p.v_head_dim), row_start,
                            memory, g);
  }
  for (uint q_head = 0; q_head < heads; ++q_head) {  // the query heads that share this KV head
    const AttentionHead h = {g.group.z, g.group.y * heads + q_head};
    const AttentionRows<T> q_rows = rows_of(h.in(Q, p.Q, 1), p.Q.row, p.q_len, p.head_dim);
    const AttentionRows<T> k_rows = rows_of(h.in(K, p.K, p.gqa_factor), p.K.row, p.kv_len, p.head_dim);
    const AttentionRows<T> v_rows = rows_of(h.in(V, p.V, p.gqa_factor), p.V.row, p.kv_len, p.v_head_dim);
    const AttentionRows<T> do_rows = rows_of(h.in(dO, p.dO, 1), p.dO.row, p.q_len, p.v_head_dim);
    device const T* const mask_of_head = head_mask(mask, h, p);
    const auto tiles =
        mask_tiles<Shape::rows, Shape::columns, kRowsAreQueries>(mask_kinds, row_start, h.batch, h.head, p);
    const ulong stats_offset = (ulong(h.batch) * p.q_heads + h.head) * p.q_len;
    float row_lse[Shape::row_fragments], row_delta[Shape::row_fragments];
    if (kRowsAreQueries) {
      const AttentionRows<T> o_rows = rows_of(h.in(O, p.O, 1), p.O.row, p.q_len, p.v_head_dim);
      load_fragments<Shape>(vo_frag, do_rows, row_start, memory, g);
      load_fragments<Shape>(qk_frag, o_rows, row_start, memory, g);
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; ++i) {
        row_delta[i] = 0.0f;
#pragma unroll
        for (uint e = 0; e < Shape::dim_fragments; ++e)
#pragma unroll
          for (uint n = 0; n < Shape::elements; ++n)
            row_delta[i] += float(vo_frag[i][e].thread_elements()[n]) * float(qk_frag[i][e].thread_elements()[n]);
        row_delta[i] = reduce_row_sum(row_delta[i]);
        const bool in_range = row + i * 8 < p.q_len;
        row_lse[i] = in_range ? lse_to_subtract(lse[stats_offset + row + i * 8]) : INFINITY;
        if (in_range && element_column<Shape>(g.lane) == 0) delta[stats_offset + row + i * 8] = row_delta[i];
      }
      load_fragments<Shape>(qk_frag, q_rows, row_start, memory, g);
    }
    // Under a causal mask, skip keys after the tile's queries and queries before the tile's keys.
    const uint end = !kRowsAreQueries ? p.q_len : p.causal ? min(p.kv_len, row_start + Shape::rows) : p.kv_len;
    const uint begin = tiles.next(!kRowsAreQueries && p.causal ? row_start / Shape::columns * Shape::columns : 0, end);
    // Columns outside this range are masked in every row of this SIMD group.
    const uint visible_begin = !kRowsAreQueries && p.causal ? simdgroup_start : 0;
    const uint visible_end = kRowsAreQueries && p.causal ? min(end, simdgroup_start + Shape::simdgroup_rows) : end;
    typename Shape::Loader qk_loader, vo_loader;
    qk_loader.load(kRowsAreQueries ? k_rows : q_rows, begin, 0, g.index);
    vo_loader.load(kRowsAreQueries ? v_rows : do_rows, begin, 0, g.index);
    for (uint tile = begin, next; tile < end; tile = next) {
      const bool reads_mask = tiles.adds(tile, p);
      next = tiles.next(tile + Shape::columns, end);
      qk_loader.store(q_rows, qk_tile, Shape::stride, g.index);
      vo_loader.store(q_rows, vo_tile, Shape::stride, g.index);
      if (!kRowsAreQueries && g.index < Shape::columns) {
        const uint query = tile + g.index;
        const bool in_range = query < p.q_len;
        column_stats[g.index] = in_range
                                    ? float2(lse_to_subtract(lse[stats_offset + query]), delta[stats_offset + query])
                                    : float2(INFINITY);
      }
      tg_barrier();
      if (next < end) {
        qk_loader.load(kRowsAreQueries ? k_rows : q_rows, next, 0, g.index);
        vo_loader.load(kRowsAreQueries ? v_rows : do_rows, next, 0, g.index);
      }
      for (uint step = 0; step < Shape::columns; step += Shape::column_step) {
        const uint step_start = tile + step, column = step_start + element_column<Shape>(g.lane);
        if (step_start + Shape::column_step <= visible_begin || step_start >= visible_end) continue;
        typename Shape::Accumulator P[Shape::row_fragments][Shape::column_fragments];   // S, overwritten by P
        typename Shape::Accumulator dS[Shape::row_fragments][Shape::column_fragments];  // dP, overwritten by dS
        compute_scores<Shape>(P, qk_frag, qk_tile + step * Shape::stride, g.lane);
        if (kComputesDS) compute_scores<Shape>(dS, vo_frag, vo_tile + step * Shape::stride, g.lane);
        const uint max_key =
            kRowsAreQueries ? step_start + Shape::column_step - 1 : simdgroup_start + Shape::simdgroup_rows - 1;
        const bool all_visible = step_start + Shape::column_step <= end &&
                                 (!p.causal || max_key <= (kRowsAreQueries ? simdgroup_start : step_start));
        if (all_visible && !reads_mask) {
#pragma unroll
          for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::column_fragments; ++j) P[i][j].thread_elements() *= p.scale;
        } else {
#pragma unroll
          for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
              for (uint n = 0; n < Shape::elements; ++n) {
                const uint r = row + i * 8, c = column + j * Shape::fragment_columns + n;
                const float s = P[i][j].thread_elements()[n];
                P[i][j].thread_elements()[n] =
                    masked_score(s, kRowsAreQueries ? r : c, kRowsAreQueries ? c : r, reads_mask, mask_of_head, p);
              }
        }
        typename Shape::Accumulator dropout[Shape::row_fragments][Shape::column_fragments];
        if (p.has_dropout)
#pragma unroll
          for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
              for (uint n = 0; n < Shape::elements; ++n) {
                const uint r = row + i * 8, c = column + j * Shape::fragment_columns + n;
                dropout[i][j].thread_elements()[n] =
                    dropout_scale(kRowsAreQueries ? r : c, kRowsAreQueries ? c : r, h, random, p);
                if (kComputesDS) dS[i][j].thread_elements()[n] *= dropout[i][j].thread_elements()[n];
              }
#pragma unroll
        for (uint j = 0; j < Shape::column_fragments; ++j)
#pragma unroll
          for (uint n = 0; n < Shape::elements; ++n) {
            const float2 stats =
                kRowsAreQueries ? float2(0.0f)
                                : column_stats[step + element_column<Shape>(g.lane) + j * Shape::fragment_columns + n];
#pragma unroll
            for (uint i = 0; i < Shape::row_fragments; ++i) {
              const float L = kRowsAreQueries ? row_lse[i] : stats.x, D = kRowsAreQueries ? row_delta[i] : stats.y;
              const float prob = exp_score<T>(P[i][j].thread_elements()[n] - L);
              P[i][j].thread_elements()[n] = prob;
              if (kComputesDS) dS[i][j].thread_elements()[n] = score_grad(prob, dS[i][j].thread_elements()[n], D);
            }
          }
        if (kComputesDV && p.has_dropout)
#pragma unroll
          for (uint i = 0; i < Shape::row_fragments; ++i)
#pragma unroll
            for (uint j = 0; j < Shape::column_fragments; ++j)
              P[i][j].thread_elements() *= dropout[i][j].thread_elements();
        if (kComputesDV) accumulate<Shape>(dV_acc, P, vo_tile + step * Shape::stride, g.lane);
        if (kComputesDS) accumulate<Shape>(dQK_acc, dS, qk_tile + step * Shape::stride, g.lane);
      }
      tg_barrier();
    }
  }
  float scale[Shape::row_fragments];
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i) scale[i] = p.scale;
  if (kComputesDS)
    store_rows<Shape>(dQK + (long(g.group.z) * p.dQK.batch + long(g.group.y) * p.dQK.head), p.dQK.row, dQK_acc, scale,
                      row, rows, element_column<Shape>(g.lane), p.head_dim);
#pragma unroll
  for (uint i = 0; i < Shape::row_fragments; ++i) scale[i] = 1.0f;
  if (kComputesDV)
    store_rows<Shape>(dV + (long(g.group.z) * p.dV.batch + long(g.group.y) * p.dV.head), p.dV.row, dV_acc, scale, row,
                      rows, element_column<Shape>(g.lane), p.v_head_dim);
}
