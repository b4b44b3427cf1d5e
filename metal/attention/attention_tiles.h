// Attention in tiles of a whole threadgroup, with Metal 4's matmul2d: Q, the rows of S, P and the accumulators are
// cooperative tensors, and matmul2d reads K and V from device memory. The kernels do not depend on the layout of
// cooperative tensors. attention_kernels.h has the version for the fragments of one SIMD group.
#pragma once

// Apple's headers must be included in this order: metal_stdlib, metal_tensor, MetalPerformancePrimitives.
// clang-format off
#include "attention/attention.h"
#include "lib/staged_tiles.h"
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
// clang-format on

using namespace mpp::tensor_ops;

// A threadgroup computes ROWS x COLUMNS tiles of S = A B^T. HEAD_DIM is the zero-padded head dimension. MAX_THREADS
// limits register use so that this many threads, from several threadgroups, can be resident at the same time.
template <typename T, uint HEAD_DIM, uint ROWS, uint COLUMNS, uint MAX_THREADS>
struct AttentionTiles {
  enum : uint { head_dim = HEAD_DIM, rows = ROWS, columns = COLUMNS, max_threads = MAX_THREADS };
  typedef execution_simdgroups<int(ROWS / kTileRowsOfSimdgroup)> Scope;
  typedef matmul2d<matmul2d_descriptor(int(rows), int(COLUMNS), int(HEAD_DIM), false, true), Scope> Scores;
  typedef matmul2d<matmul2d_descriptor(int(rows), int(HEAD_DIM), int(COLUMNS), false, false, false,
                                       matmul2d_descriptor::mode::multiply_accumulate),
                   Scope>
      Accumulate;
  // Two tiles of K (of Q for dK and dV), in buffers 0 and 1, and two of V (dO), in buffers 2 and 3.
  typedef MPSX_STAGED_TILES<Scope, T, COLUMNS, HEAD_DIM, 4> Stages;
};

// The rows of one head in device memory, starting at `row`.
template <typename T>
METAL_FUNC auto row_tensor(device T* data, long stride, uint row, uint rows, uint dim) {
  return tensor(data, dextents<int, 2>(int(dim), int(rows)), array<int, 2>{1, int(stride)}).slice(0, int(row));
}
template <typename T>
METAL_FUNC device T* head_data(device T* data, AttentionStrides s, AttentionHead h, uint group) {
  return data + (long(h.batch) * s.batch + long(h.head / group) * s.head);
}

// Scales S. Unless all elements are visible, also adds the mask and sets invisible elements to -inf.
template <bool ROWS_ARE_QUERIES, typename Matrix>
METAL_FUNC void mask_scores(thread Matrix& S, uint row, uint column, bool all_visible, device const float* mask,
                            constant AttentionParams& p) {
  if (all_visible && !p.has_mask) {
    MPSX_UNROLL
    for (ushort i = 0; i < S.get_capacity(); ++i) S[i] *= p.scale;
    return;
  }
  MPSX_UNROLL
  for (ushort i = 0; i < S.get_capacity(); ++i) {
    const auto at = S.get_multidimensional_index(i);
    const uint r = row + uint(at[1]), c = column + uint(at[0]);
    S[i] = masked_score(S[i], ROWS_ARE_QUERIES ? r : c, ROWS_ARE_QUERIES ? c : r, mask, p);
  }
}

// The probabilities of a tile that dropout keeps, in threadgroup memory: one bit each, and a byte per block of random
// numbers. If each lane computed the random numbers of its own elements, it would compute most blocks four times.
template <typename Tiles, bool ROWS_ARE_QUERIES>
struct KeptScores {
  enum : uint {
    queries = ROWS_ARE_QUERIES ? Tiles::rows : Tiles::columns,
    blocks = (ROWS_ARE_QUERIES ? Tiles::columns : Tiles::rows) / 4,
    bytes = queries * blocks,
  };
  static METAL_FUNC void fill(threadgroup uchar* kept, uint row, uint column, AttentionHead h,
                              constant AttentionParams& p, GroupThread g) {
    const uint query = ROWS_ARE_QUERIES ? row : column, block = (ROWS_ARE_QUERIES ? column : row) / 4;
    for (uint i = g.index; i < bytes; i += g.count) {
      const PhiloxBlock r = dropout_bits(query + i / blocks, block + i % blocks, h, p);
      const uint b = p.keep_bound;
      kept[i] = uchar(uint(r.x <= b) | uint(r.y <= b) << 1 | uint(r.z <= b) << 2 | uint(r.w <= b) << 3);
    }
  }
  // Returns the factor by which dropout multiplies element `i` of S.
  template <typename Matrix>
  static METAL_FUNC float scale(threadgroup const uchar* kept, thread const Matrix& S, ushort i,
                                constant AttentionParams& p) {
    const auto at = S.get_multidimensional_index(i);
    const uint query = uint(at[ROWS_ARE_QUERIES ? 1 : 0]), key = uint(at[ROWS_ARE_QUERIES ? 0 : 1]);
    return kept[query * blocks + key / 4] >> key % 4 & 1 ? p.keep_scale : 0.0f;
  }
};

// Multiplies each row of the accumulators by the row's value in `row_values`.
template <typename Matrix>
METAL_FUNC void scale_rows(thread Matrix& sums, threadgroup const float* row_values) {
  MPSX_UNROLL
  for (ushort i = 0; i < sums.get_capacity(); ++i) sums[i] *= row_values[sums.get_multidimensional_index(i)[1]];
}

template <typename T, typename Tiles>
[[max_total_threads_per_threadgroup(Tiles::max_threads)]]
kernel void attention_tiles(device T* O [[buffer(0)]], device float* lse [[buffer(1)]], device T* Q [[buffer(2)]],
                            device T* K [[buffer(3)]], device T* V [[buffer(4)]],
                            device const float* mask [[buffer(5)]], constant AttentionParams& p [[buffer(6)]],
                            MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float row_values[Tiles::rows];
  typedef KeptScores<Tiles, true> Dropout;
  threadgroup uchar kept[Dropout::bytes];
  const AttentionHead h = {g.group.z, g.group.y};
  const uint q_start = tile_start(g.group.x, Tiles::rows, p.q_len, p.causal);
  device T* const head_K = head_data(K, p.K, h, p.gqa_factor);
  device T* const head_V = head_data(V, p.V, h, p.gqa_factor);
  const auto K_rows = row_tensor(head_K, p.K.row, 0, p.kv_len, p.head_dim);
  const auto V_rows = row_tensor(head_V, p.V.row, 0, p.kv_len, p.v_head_dim);
  typename Tiles::Stages stages;
  typedef decltype(stages.tile(0, K_rows)) Rows;
  device const float* head_mask =
      p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
  typename Tiles::Scores scores;
  typename Tiles::Accumulate accumulate;
  auto Q_tile = scores.template get_left_input_cooperative_tensor<T, T, float>();
  Q_tile.load(row_tensor(head_data(Q, p.Q, h, 1), p.Q.row, q_start, p.q_len, p.head_dim));
  auto S = scores.template get_destination_cooperative_tensor<decltype(Q_tile), Rows, float>();
  typedef decltype(accumulate.template get_left_input_cooperative_tensor<T, T, float>()) Probabilities;
  auto O_sum = accumulate.template get_destination_cooperative_tensor<Probabilities, Rows, float>();
  auto row_max = scores.template get_row_reduction_destination_cooperative_tensor<decltype(Q_tile), Rows, float>();
  auto row_sum = row_max, tile_max = row_max, tile_sum = row_max, rescale = row_max;
  MPSX_UNROLL
  for (ushort i = 0; i < row_max.get_capacity(); ++i) row_max[i] = -INFINITY, row_sum[i] = 0.0f;
  MPSX_UNROLL
  for (ushort i = 0; i < O_sum.get_capacity(); ++i) O_sum[i] = 0.0f;
  const uint kv_end = p.causal ? min(p.kv_len, q_start + Tiles::rows) : p.kv_len;
  stages.load(0, K_rows);
  stages.load(2, V_rows);
  uint buffer = 0;
  for (uint kv_start = 0; kv_start < kv_end; kv_start += Tiles::columns, buffer ^= 1) {
    const int next = int(kv_start + Tiles::columns);
    stages.template wait<1>();  // for K
    if (p.has_dropout) Dropout::fill(kept, q_start, kv_start, h, p, g);
    stages.load(buffer ^ 1, K_rows.slice(0, next));
    scores.run(Q_tile, stages.tile(buffer, K_rows.slice(0, int(kv_start))), S);
    const bool all_visible = kv_start + Tiles::columns <= (p.causal ? min(p.kv_len, q_start + 1) : p.kv_len);
    mask_scores<true>(S, q_start, kv_start, all_visible, head_mask, p);
    reduce_rows(S, tile_max, reduction_operation::max, -INFINITY);
    MPSX_UNROLL
    for (ushort i = 0; i < row_max.get_capacity(); ++i) {
      const float new_max = max(row_max[i], tile_max[i]);
      // Turn tile_max into the value to subtract. max() ignores NaN scores, but exp() propagates them.
      tile_max[i] = new_max == -INFINITY ? 0.0f : new_max;
      rescale[i] = exp_score<T>(row_max[i] - tile_max[i]);
      row_max[i] = new_max;
    }
    MPSX_UNROLL
    for (auto s = S.begin(); s != S.end(); ++s) *s = exp_score<T>(*s - *tile_max.map_iterator(s));
    reduce_rows(S, tile_sum, reduction_operation::sum, 0.0f);
    MPSX_UNROLL
    for (auto r = rescale.begin(); r != rescale.end(); ++r)
      if (r.is_valid_element()) row_values[r.get_multidimensional_index()[0]] = *r;
    MPSX_UNROLL
    for (ushort i = 0; i < row_sum.get_capacity(); ++i) row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i];
    stages.template wait<1>();  // for V, row_values, and kept
    stages.load(2 + (buffer ^ 1), V_rows.slice(0, next));
    if (p.has_dropout) MPSX_UNROLL
    for (ushort i = 0; i < S.get_capacity(); ++i) S[i] *= Dropout::scale(kept, S, i, p);
    scale_rows(O_sum, row_values);
    const auto P = accumulate.template get_left_input_cooperative_tensor<T, T, float>(S);
    accumulate.run(P, stages.tile(2 + buffer, V_rows.slice(0, int(kv_start))), O_sum);
  }
  tg_barrier();  // all threads have read row_values
  MPSX_UNROLL
  for (ushort i = 0; i < row_sum.get_capacity(); ++i) {
    const uint row = uint(row_sum.get_multidimensional_index(i)[0]);
    if (!row_sum.is_valid_element(i)) continue;
    row_values[row] = row_sum[i] == 0.0f ? 0.0f : 1.0f / row_sum[i];  // A query that attends to no key yields 0.
    if (q_start + row < p.q_len)
      lse[(ulong(h.batch) * p.q_heads + h.head) * p.q_len + q_start + row] =
          row_sum[i] == 0.0f ? -INFINITY : row_max[i] + precise::log(row_sum[i]);
  }
  tg_barrier();
  scale_rows(O_sum, row_values);
  O_sum.store(row_tensor(head_data(O, p.O, h, 1), p.O.row, q_start, p.q_len, p.v_head_dim));
}

// Returns rowsum(dO * O) of one query. Two adjacent lanes each sum half of the row.
template <typename T>
METAL_FUNC float output_delta(AttentionRows<T> dO, AttentionRows<T> O, uint query, uint lane) {
  enum : uint { kVec = 16 / sizeof(T) };
  float sum = 0.0f;
  for (uint k = lane % 2 * kVec; k < dO.dim; k += 2 * kVec) {
    const uint4 a = dO.load(query, k), b = O.load(query, k);
    thread const T *x = (thread const T*)&a, *y = (thread const T*)&b;
    MPSX_UNROLL
    for (uint i = 0; i < kVec; ++i) sum += float(x[i]) * float(y[i]);
  }
  return lane_pair_sum(sum);
}

// Computes the same gradients as attention_backward in attention_kernels.h. Here, too, the dQ pass runs first.
template <typename T, typename Tiles, uint GRAD>
[[max_total_threads_per_threadgroup(Tiles::max_threads)]]
kernel void attention_tiles_backward(device T* dQK [[buffer(0)]], device T* dV [[buffer(1)]],
                                     device float* delta [[buffer(2)]], device const float* lse [[buffer(3)]],
                                     device T* Q [[buffer(4)]], device T* K [[buffer(5)]], device T* V [[buffer(6)]],
                                     device T* dO [[buffer(7)]], device const T* O [[buffer(8)]],
                                     device const float* mask [[buffer(9)]], constant AttentionParams& p [[buffer(10)]],
                                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint { kRowsAreQueries = GRAD == kGradQ, kComputesDS = GRAD != kGradV, kComputesDV = GRAD / kGradV };
  // (lse, delta) of each query: of the rows, or of the columns of two tiles
  threadgroup float2 stats[kRowsAreQueries ? Tiles::rows : 2 * Tiles::columns];
  typedef KeptScores<Tiles, kRowsAreQueries> Dropout;
  threadgroup uchar kept[2 * Dropout::bytes];  // of two tiles
  const uint rows = kRowsAreQueries ? p.q_len : p.kv_len;
  const uint row = tile_start(g.group.x, Tiles::rows, rows, kRowsAreQueries && p.causal);
  const uint heads = kRowsAreQueries ? 1 : p.gqa_factor;
  typename Tiles::Stages stages;
  typedef decltype(stages.tile(0, row_tensor(Q, 0, 0, 0, 0))) Rows;
  typename Tiles::Scores scores;
  typename Tiles::Accumulate accumulate;
  auto qk_rows = scores.template get_left_input_cooperative_tensor<T, T, float>();  // Q for dQ, K for dK and dV
  auto vo_rows = qk_rows;                                                           // dO for dQ, V for dK and dV
  typedef decltype(accumulate.template get_left_input_cooperative_tensor<T, T, float>()) Left;
  auto dQK_sum = accumulate.template get_destination_cooperative_tensor<Left, Rows, float>();
  auto dV_sum = dQK_sum;
  MPSX_UNROLL
  for (ushort i = 0; i < dQK_sum.get_capacity(); ++i) dQK_sum[i] = 0.0f, dV_sum[i] = 0.0f;
  if (!kRowsAreQueries) {
    const AttentionHead h = {g.group.z, g.group.y};
    qk_rows.load(row_tensor(head_data(K, p.K, h, 1), p.K.row, row, p.kv_len, p.head_dim));
    if (kComputesDS) vo_rows.load(row_tensor(head_data(V, p.V, h, 1), p.V.row, row, p.kv_len, p.v_head_dim));
  }
  for (uint q_head = 0; q_head < heads; ++q_head) {  // the query heads that share this KV head
    const AttentionHead h = {g.group.z, g.group.y * heads + q_head};
    // The operands with a row per column of S: K and V for dQ, Q and dO for dK and dV.
    const uint columns = kRowsAreQueries ? p.kv_len : p.q_len;
    const auto qk = row_tensor(kRowsAreQueries ? head_data(K, p.K, h, p.gqa_factor) : head_data(Q, p.Q, h, 1),
                               kRowsAreQueries ? p.K.row : p.Q.row, 0, columns, p.head_dim);
    const auto vo = row_tensor(kRowsAreQueries ? head_data(V, p.V, h, p.gqa_factor) : head_data(dO, p.dO, h, 1),
                               kRowsAreQueries ? p.V.row : p.dO.row, 0, columns, p.v_head_dim);
    device const float* head_mask =
        p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask;
    const ulong stats_offset = (ulong(h.batch) * p.q_heads + h.head) * p.q_len;
    if (kRowsAreQueries) {
      qk_rows.load(row_tensor(head_data(Q, p.Q, h, 1), p.Q.row, row, p.q_len, p.head_dim));
      vo_rows.load(row_tensor(head_data(dO, p.dO, h, 1), p.dO.row, row, p.q_len, p.v_head_dim));
      const AttentionRows<T> o_rows = rows_of(h.in(O, p.O, 1), p.O.row, p.q_len, p.v_head_dim);
      const AttentionRows<T> do_rows = rows_of(h.in(dO, p.dO, 1), p.dO.row, p.q_len, p.v_head_dim);
      const uint local = g.index / 2, query = row + local;
      const float sum = output_delta(do_rows, o_rows, query, g.lane);
      if (g.lane % 2 == 0) {
        stats[local] = query < p.q_len ? float2(lse_to_subtract(lse[stats_offset + query]), sum) : float2(INFINITY);
        if (query < p.q_len) delta[stats_offset + query] = sum;
      }
    }
    // Under a causal mask, skip keys after the tile's queries and queries before the tile's keys.
    const uint begin = !kRowsAreQueries && p.causal ? row / Tiles::columns * Tiles::columns : 0;
    const uint end = !kRowsAreQueries ? p.q_len : p.causal ? min(p.kv_len, row + Tiles::rows) : p.kv_len;
    uint buffer = 0;
    if (!kRowsAreQueries) tg_barrier();  // all threads have finished the previous head
    stages.load(0, qk.slice(0, int(begin)));
    stages.load(2, vo.slice(0, int(begin)));
    for (uint column = begin; column < end; column += Tiles::columns, buffer ^= 1) {
      threadgroup float2* const tile_stats = kRowsAreQueries ? stats : stats + buffer * Tiles::columns;
      if (!kRowsAreQueries && g.index < Tiles::columns) {
        const uint query = column + g.index;
        tile_stats[g.index] = query < p.q_len
                                  ? float2(lse_to_subtract(lse[stats_offset + query]), delta[stats_offset + query])
                                  : float2(INFINITY);
      }
      threadgroup uchar* const tile_kept = kept + buffer * Dropout::bytes;
      if (p.has_dropout) Dropout::fill(tile_kept, row, column, h, p, g);
      stages.template wait<0>();  // for the tiles, stats, and kept
      const int next = int(column + Tiles::columns);
      stages.load(buffer ^ 1, qk.slice(0, next));
      stages.load(2 + (buffer ^ 1), vo.slice(0, next));
      auto P = scores.template get_destination_cooperative_tensor<decltype(qk_rows), Rows, float>();
      auto dS = P;
      const Rows qk_tile = stages.tile(buffer, qk.slice(0, int(column)));
      const Rows vo_tile = stages.tile(2 + buffer, vo.slice(0, int(column)));
      scores.run(qk_rows, qk_tile, P);
      if (kComputesDS) scores.run(vo_rows, vo_tile, dS);  // dP, overwritten by dS
      const uint max_key = kRowsAreQueries ? column + Tiles::columns - 1 : row + Tiles::rows - 1;
      const bool all_visible = column + Tiles::columns <= end && row + Tiles::rows <= rows &&
                               (!p.causal || max_key <= (kRowsAreQueries ? row : column));
      mask_scores<kRowsAreQueries>(P, row, column, all_visible, head_mask, p);
      MPSX_UNROLL
      for (ushort i = 0; i < P.get_capacity(); ++i) {
        const float2 query_stats = tile_stats[P.get_multidimensional_index(i)[kRowsAreQueries ? 1 : 0]];
        const float prob = exp_score<T>(P[i] - query_stats.x);
        const float keep = p.has_dropout ? Dropout::scale(tile_kept, P, i, p) : 1.0f;
        if (kComputesDS) dS[i] = score_grad(prob, dS[i] * keep, query_stats.y);
        P[i] = prob * keep;
      }
      if (kComputesDV)
        accumulate.run(accumulate.template get_left_input_cooperative_tensor<T, T, float>(P), vo_tile, dV_sum);
      if (kComputesDS)
        accumulate.run(accumulate.template get_left_input_cooperative_tensor<T, T, float>(dS), qk_tile, dQK_sum);
    }
  }
  if (kComputesDS) {
    MPSX_UNROLL
    for (ushort i = 0; i < dQK_sum.get_capacity(); ++i) dQK_sum[i] *= p.scale;
    const AttentionHead h = {g.group.z, g.group.y};
    dQK_sum.store(row_tensor(head_data(dQK, p.dQK, h, 1), p.dQK.row, row, rows, p.head_dim));
  }
  if (kComputesDV) {
    const AttentionHead h = {g.group.z, g.group.y};
    dV_sum.store(row_tensor(head_data(dV, p.dV, h, 1), p.dV.row, row, rows, p.v_head_dim));
  }
}
