// Attention in tiles of a whole threadgroup, with Metal 4's matmul2d: Q, the rows of S, P and the accumulators are
// cooperative tensors, and matmul2d reads K and V from device memory. The kernels do not depend on the layout of
// cooperative tensors. attention_kernels.h has the version for the fragments of one SIMD group.
#pragma once

// Apple's headers must be included in this order: metal_stdlib, metal_tensor, MetalPerformancePrimitives.
// clang-format off
#include "attention/attention.h"
#include "attention/attention_dropout.h"
#include "attention/attention_mask.h"
#include "lib/staged_tiles.h"
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
// clang-format on

using namespace mpp::tensor_ops;

// A threadgroup computes 16 rows of scores per SIMD group, and COLUMNS columns at a time. Its right operands (K and V,
// for example) have BUFFERS tiles each in threadgroup memory. With STAGES_ROWS, the left operands of the scores are
// there, too. The head dimension is padded with zeros to HEAD_DIM.
template <typename T, uint HEAD_DIM, uint COLUMNS, uint BUFFERS, uint SIMDGROUPS, bool STAGES_ROWS>
struct AttentionTiles {
  enum : uint {
    head_dim = HEAD_DIM,
    rows = 16 * SIMDGROUPS,
    columns = COLUMNS,
    buffers = BUFFERS,
    row_buffers = STAGES_ROWS ? rows / COLUMNS : 0,
    threads = 2 * rows,
  };
  typedef execution_simdgroups<int(SIMDGROUPS)> Scope;
  typedef mpsx::more_cooperative_operands Operands;
  typedef matmul2d<matmul2d_descriptor(int(rows), int(COLUMNS), int(HEAD_DIM), false, true), Scope, Operands> Scores;
  typedef matmul2d<matmul2d_descriptor(int(rows), int(HEAD_DIM), int(COLUMNS), false, false, false,
                                       matmul2d_descriptor::mode::multiply_accumulate),
                   Scope, Operands>
      Accumulate;
  typedef MPSX_STAGED_TILES<Scope, T, COLUMNS, HEAD_DIM, BUFFERS + row_buffers> Stages;
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

// Multiplies each row of the accumulators by the row's factor, which passes through threadgroup memory unless the
// tensors have the same rows per thread.
template <typename Matrix, typename Rows>
METAL_FUNC void scale_rows(thread Matrix& sums, thread Rows& factors, threadgroup float* memory) {
  if (is_iterator_compatible(sums, factors)) {
    MPSX_UNROLL
    for (auto s = sums.begin(); s != sums.end(); ++s) *s *= *factors.map_iterator(s);
    return;
  }
  tg_barrier();  // all threads have read the previous factors
  MPSX_UNROLL
  for (auto f = factors.begin(); f != factors.end(); ++f)
    if (f.is_valid_element()) memory[f.get_multidimensional_index()[0]] = *f;
  tg_barrier();
  MPSX_UNROLL
  for (ushort i = 0; i < sums.get_capacity(); ++i) sums[i] *= memory[sums.get_multidimensional_index(i)[1]];
}

// Each row's maximum and sum over the tiles so far, for a softmax that reads the scores once. The maximum is in the
// unit of exp2().
template <typename Rows>
struct OnlineSoftmax {
  Rows row_max, row_sum, rescale;
  METAL_FUNC void init() {
    MPSX_UNROLL
    for (ushort i = 0; i < row_max.get_capacity(); ++i) row_max[i] = -INFINITY, row_sum[i] = 0.0f;
  }
  // Turns a tile of S into exp(S - row_max), and sets `rescale` to the factors of the sums before this tile.
  template <typename Matrix>
  METAL_FUNC void update(thread Matrix& S, float factor) {
    Rows tile_max = row_max, tile_sum = row_max;
    reduce_rows(S, tile_max, reduction_operation::max, -INFINITY);
    MPSX_UNROLL
    for (ushort i = 0; i < row_max.get_capacity(); ++i) {
      const float new_max = max(row_max[i], tile_max[i] * factor);
      // Turn tile_max into the value to add. max() ignores NaN scores, but exp2() propagates them.
      tile_max[i] = new_max == -INFINITY ? 0.0f : -new_max;
      rescale[i] = fast::exp2(row_max[i] + tile_max[i]);
      row_max[i] = new_max;
    }
    MPSX_UNROLL
    for (auto s = S.begin(); s != S.end(); ++s) *s = fast::exp2(fma(*s, factor, *tile_max.map_iterator(s)));
    reduce_rows(S, tile_sum, reduction_operation::sum, 0.0f);
    MPSX_UNROLL
    for (ushort i = 0; i < row_sum.get_capacity(); ++i) row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i];
  }
};

template <typename T, typename Tiles>
[[max_total_threads_per_threadgroup(Tiles::threads)]]
kernel void attention_tiles(device T* O [[buffer(0)]], device float* lse [[buffer(1)]], device T* Q [[buffer(2)]],
                            device T* K [[buffer(3)]], device T* V [[buffer(4)]], device const T* mask [[buffer(5)]],
                            device const uchar* mask_kinds [[buffer(6)]], device const ulong* seed [[buffer(7)]],
                            device const ulong* offset [[buffer(8)]], constant AttentionParams& p [[buffer(9)]],
                            MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  threadgroup float row_values[Tiles::rows];
  typedef KeptScores<Tiles, true> Dropout;
  threadgroup uint kept[2 * Dropout::size];  // of two tiles
  const AttentionHead h = {g.group.z, g.group.y};
  const uint q_start = tile_start(g.group.x, Tiles::rows, p.q_len, p.causal | p.has_mask);
  device T* const head_K = head_data(K, p.K, h, p.gqa_factor);
  device T* const head_V = head_data(V, p.V, h, p.gqa_factor);
  const auto K_rows = row_tensor(head_K, p.K.row, 0, p.kv_len, p.head_dim);
  const auto V_rows = row_tensor(head_V, p.V.row, 0, p.kv_len, p.v_head_dim);
  typename Tiles::Stages stages;
  enum : uint { kTilesOfK = 0, kTilesOfV = 1 };
  typedef decltype(stages.tile(0, 0, K_rows)) Rows;
  mask = head_mask(mask, h, p);
  const auto tiles = mask_tiles<Tiles::rows, Tiles::columns, true>(mask_kinds, q_start, h.batch, h.head, p);
  typename Tiles::Scores scores;
  typename Tiles::Accumulate accumulate;
  auto Q_tile = scores.template get_left_input_cooperative_tensor<T, T, float>();
  Q_tile.load(row_tensor(head_data(Q, p.Q, h, 1), p.Q.row, q_start, p.q_len, p.head_dim));
  auto S = scores.template get_destination_cooperative_tensor<decltype(Q_tile), Rows, float>();
  auto P = accumulate.template get_left_input_cooperative_tensor<T, T, float>();
  auto O_sum = accumulate.template get_destination_cooperative_tensor<decltype(P), Rows, float>();
  MPSX_UNROLL
  for (ushort i = 0; i < O_sum.get_capacity(); ++i) O_sum[i] = 0.0f;
  typedef decltype(scores.template get_row_reduction_destination_cooperative_tensor<decltype(Q_tile), Rows, float>())
      RowValues;
  OnlineSoftmax<RowValues> softmax;
  softmax.init();
  const uint kv_end = p.causal ? min(p.kv_len, q_start + Tiles::rows) : p.kv_len;
  const uint visible_end = p.causal ? min(p.kv_len, q_start + 1) : p.kv_len;  // all queries attend to the keys before
  uint first = tiles.next(0, kv_end);
  if (first >= kv_end) first = 0;  // Compute one tile even if all are hidden.
  uint next = tiles.next(first + Tiles::columns, kv_end), previous = first;
  // P V of a tile runs during the softmax of the next one. Two buffers per operand suffice.
  stages.open(K_rows, V_rows);
  stages.load(kTilesOfK, 0, first);
  stages.load(kTilesOfK, 1, next);
  stages.load(kTilesOfV, 0, first);
  if (p.has_dropout) Dropout::fill(kept, q_start, first, h, random, p, g);
  stages.wait();
  if (p.has_dropout) Dropout::fill(kept + Dropout::size, q_start, next, h, random, p, g);
  auto first_tile = stages.tile(kTilesOfK, 0, K_rows.slice(0, int(first)));
  scores.run(Q_tile, first_tile, S);
  float factor = mask_scores<true, Tiles::rows>(S, q_start, first, first + Tiles::columns <= visible_end,
                                                tiles.adds(first, p), mask, p);
  softmax.update(S, factor);
  if (p.has_dropout) Dropout::apply(S, kept, p);
  P = accumulate.template get_left_input_cooperative_tensor<T, T, float>(S);
  uint buffer = 1;
  for (; next < kv_end; buffer ^= 1) {
    const uint kv_start = next;
    const auto K_tile = K_rows.slice(0, int(kv_start)), V_tile = V_rows.slice(0, int(previous));
    previous = kv_start;
    next = tiles.next(kv_start + Tiles::columns, kv_end);
    stages.wait();
    stages.load(kTilesOfK, buffer ^ 1, next);
    stages.load(kTilesOfV, buffer, kv_start);
    const auto scores_started = stages.start(scores, Q_tile, kTilesOfK, buffer, K_tile, S);
    const auto sums_started = stages.start(accumulate, P, kTilesOfV, buffer ^ 1, V_tile, O_sum);
    stages.template finish<1>(scores_started, S);
    factor = mask_scores<true, Tiles::rows>(S, q_start, kv_start, kv_start + Tiles::columns <= visible_end,
                                            tiles.adds(kv_start, p), mask, p);
    softmax.update(S, factor);
    if (p.has_dropout) {  // without a branch here, ptxas would wait for P V before the softmax
      Dropout::fill(kept + (buffer ^ 1) * Dropout::size, q_start, next, h, random, p, g);
      Dropout::apply(S, kept + buffer * Dropout::size, p);
    }
    stages.template finish<0>(sums_started, O_sum);
    scale_rows(O_sum, softmax.rescale, row_values);
    P = accumulate.template get_left_input_cooperative_tensor<T, T, float>(S);
  }
  stages.wait();
  auto last_tile = stages.tile(kTilesOfV, buffer ^ 1, V_rows.slice(0, int(previous)));
  accumulate.run(P, last_tile, O_sum);
  stages.close();
  MPSX_UNROLL
  for (ushort i = 0; i < softmax.row_sum.get_capacity(); ++i) {
    const float sum = softmax.row_sum[i];
    const uint query = q_start + uint(softmax.row_sum.get_multidimensional_index(i)[0]);
    if (softmax.row_sum.is_valid_element(i) && query < p.q_len)
      lse[(ulong(h.batch) * p.q_heads + h.head) * p.q_len + query] =
          sum == 0.0f ? -INFINITY : softmax.row_max[i] * M_LN2_F + precise::log(sum);
    // A query that attends to no key yields 0. A correctly rounded division would be a function call on NVIDIA GPUs,
    // and ptxas serializes the products of a kernel with calls.
    softmax.rescale[i] = sum == 0.0f ? 0.0f : fast::divide(1.0f, sum);
  }
  scale_rows(O_sum, softmax.rescale, row_values);
  O_sum.mpsx_store(row_tensor(head_data(O, p.O, h, 1), p.O.row, q_start, p.q_len, p.v_head_dim));
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

// Multiplies the scores by a factor that converts them to the unit of exp2(), and subtracts their queries' `lse`.
template <bool ROWS_ARE_QUERIES, typename Matrix>
METAL_FUNC void subtract_lse(thread Matrix& P, thread Matrix& S, float factor, threadgroup const float* lse) {
  MPSX_UNROLL
  for (ushort i = 0; i < S.get_capacity(); ++i)
    P[i] = fma(S[i], factor, -lse[S.get_multidimensional_index(i)[ROWS_ARE_QUERIES ? 1 : 0]]);
}

// Computes dQ, or dK and dV. The dQ pass runs first, because it stores the queries' `stats`, (lse * log2(e), delta),
// up to a multiple of kMaxTileRows queries per head. Queries past the end have the probability 0. With AHEAD, S of the
// next tile is computed during exp2() of this one, for which S and P need separate registers.
template <typename T, typename Tiles, bool ROWS_ARE_QUERIES, bool AHEAD>
[[max_total_threads_per_threadgroup(Tiles::threads)]]
kernel void attention_tiles_backward(device T* dQK [[buffer(0)]], device T* dV [[buffer(1)]],
                                     device float2* stats [[buffer(2)]], device const float* lse [[buffer(3)]],
                                     device T* Q [[buffer(4)]], device T* K [[buffer(5)]], device T* V [[buffer(6)]],
                                     device T* dO [[buffer(7)]], device const T* O [[buffer(8)]],
                                     device const T* mask [[buffer(9)]], device const uchar* mask_kinds [[buffer(10)]],
                                     device const ulong* seed [[buffer(11)]], device const ulong* offset [[buffer(12)]],
                                     constant AttentionParams& p [[buffer(13)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  enum : uint { kTilesOfQK = 0, kTilesOfVO = 1 };
  enum : uint { kStats = ROWS_ARE_QUERIES ? Tiles::rows : 2 * Tiles::columns };  // of the rows, or of two tiles
  threadgroup float staged_lse[kStats], staged_delta[kStats];
  typedef KeptScores<Tiles, ROWS_ARE_QUERIES> Dropout;
  threadgroup uint kept[2 * Dropout::size];  // of two tiles
  const uint rows = ROWS_ARE_QUERIES ? p.q_len : p.kv_len;
  const uint row = tile_start(g.group.x, Tiles::rows, rows, ROWS_ARE_QUERIES && (p.causal | p.has_mask));
  const uint heads = ROWS_ARE_QUERIES ? 1 : p.gqa_factor;
  const bool stages_stats = !ROWS_ARE_QUERIES && g.index < Tiles::columns;  // this thread copies those of one query
  typename Tiles::Stages stages;
  typedef decltype(stages.tile(0, 0, row_tensor(Q, 0, 0, 0, 0))) Rows;
  typename Tiles::Scores scores;
  typename Tiles::Accumulate accumulate;
  // The operands with a row per row of S: Q and dO for dQ, K and V for dK and dV.
  const AttentionHead row_head = {g.group.z, g.group.y};
  const auto qk_matrix = row_tensor(ROWS_ARE_QUERIES ? head_data(Q, p.Q, row_head, 1) : head_data(K, p.K, row_head, 1),
                                    ROWS_ARE_QUERIES ? p.Q.row : p.K.row, 0, rows, p.head_dim);
  const auto vo_matrix =
      row_tensor(ROWS_ARE_QUERIES ? head_data(dO, p.dO, row_head, 1) : head_data(V, p.V, row_head, 1),
                 ROWS_ARE_QUERIES ? p.dO.row : p.V.row, 0, rows, p.v_head_dim);
  stages.open(qk_matrix, vo_matrix);
  MPSX_UNROLL
  for (uint i = 0; i < Tiles::row_buffers; ++i) stages.load(Tiles::buffers + i, row + i * Tiles::columns);
  auto qk_rows = stages.rows(kTilesOfQK, Tiles::buffers, qk_matrix.slice(0, int(row)));
  auto vo_rows = stages.rows(kTilesOfVO, Tiles::buffers, vo_matrix.slice(0, int(row)));
  auto P = scores.template get_destination_cooperative_tensor<decltype(qk_rows), Rows, float>();
  auto dS = P, S = P;
  auto left = accumulate.template get_left_input_cooperative_tensor<T, T, float>();  // P or dS, rounded
  auto dQK_sum = accumulate.template get_destination_cooperative_tensor<decltype(left), Rows, float>();
  auto dV_sum = dQK_sum;
  MPSX_UNROLL
  for (ushort i = 0; i < dQK_sum.get_capacity(); ++i) dQK_sum[i] = 0.0f, dV_sum[i] = 0.0f;
  for (uint q_head = 0; q_head < heads; ++q_head) {  // the query heads that share this KV head
    const AttentionHead h = {g.group.z, g.group.y * heads + q_head};
    // Under a causal mask, skip keys after the tile's queries and queries before the tile's keys.
    const uint end = !ROWS_ARE_QUERIES ? p.q_len : p.causal ? min(p.kv_len, row + Tiles::rows) : p.kv_len;
    // The operands with a row per column of S: K and V for dQ, Q and dO for dK and dV.
    const auto qk = row_tensor(ROWS_ARE_QUERIES ? head_data(K, p.K, h, p.gqa_factor) : head_data(Q, p.Q, h, 1),
                               ROWS_ARE_QUERIES ? p.K.row : p.Q.row, 0, end, p.head_dim);
    const auto vo = row_tensor(ROWS_ARE_QUERIES ? head_data(V, p.V, h, p.gqa_factor) : head_data(dO, p.dO, h, 1),
                               ROWS_ARE_QUERIES ? p.V.row : p.dO.row, 0, end, p.v_head_dim);
    device const T* const mask_of_head = head_mask(mask, h, p);
    const auto tiles = mask_tiles<Tiles::rows, Tiles::columns, ROWS_ARE_QUERIES>(mask_kinds, row, h.batch, h.head, p);
    const ulong head_index = ulong(h.batch) * p.q_heads + h.head;
    device float2* const head_stats = stats + head_index * ((p.q_len + kMaxTileRows - 1) / kMaxTileRows * kMaxTileRows);
    if (ROWS_ARE_QUERIES) {
      const AttentionRows<T> o_rows = rows_of(h.in(O, p.O, 1), p.O.row, p.q_len, p.v_head_dim);
      const AttentionRows<T> do_rows = rows_of(h.in(dO, p.dO, 1), p.dO.row, p.q_len, p.v_head_dim);
      const uint local = g.index / 2, query = row + local;
      const float sum = output_delta(do_rows, o_rows, query, g.lane);
      if (g.lane % 2 == 0) {
        const float subtracted = query < p.q_len ? lse_to_subtract(lse[head_index * p.q_len + query]) : INFINITY;
        head_stats[query] = float2(subtracted * M_LOG2E_F, sum);
        staged_lse[local] = subtracted * M_LOG2E_F;
        staged_delta[local] = sum;
      }
    }
    const uint begin = tiles.next(!ROWS_ARE_QUERIES && p.causal ? row / Tiles::columns * Tiles::columns : 0, end);
    stages.open(qk, vo);
    if (!ROWS_ARE_QUERIES) tg_barrier();  // all threads have finished the previous head
    uint next = tiles.next(begin + Tiles::columns, end);
    stages.load(0, begin);
    stages.load(1, next);
    if (p.has_dropout) Dropout::fill(kept, row, begin, h, random, p, g);
    float2 next_stats = float2(0.0f);
    if (stages_stats && begin < end) next_stats = head_stats[begin + g.index];
    const uint last_tile = (end - 1) / Tiles::columns * Tiles::columns;
    if (AHEAD) {
      stages.wait();
      const auto first_tile = qk.slice(0, int(min(begin, last_tile)));
      stages.template finish<0>(stages.start(scores, qk_rows, kTilesOfQK, 0, first_tile, S), S);
    }
    uint buffer = 0, parity = 0;
    // Each product runs while the kernel computes something else. The last one ends in the next iteration.
    decltype(stages.start(accumulate, left, 0, 0, qk, dQK_sum)) last_started = {};
    for (uint column = begin, after_next; column < end; column = next, next = after_next, parity ^= 1) {
      after_next = tiles.next(next + Tiles::columns, end);
      const uint tile_stats = ROWS_ARE_QUERIES ? 0 : parity * Tiles::columns;
      if (stages_stats)
        staged_lse[tile_stats + g.index] = next_stats.x, staged_delta[tile_stats + g.index] = next_stats.y;
      stages.wait();  // for the tiles, stats, and kept
      stages.load((buffer + 2) % Tiles::buffers, after_next);
      if (stages_stats && next < end) next_stats = head_stats[next + g.index];
      const auto qk_tile = qk.slice(0, int(column)), vo_tile = vo.slice(0, int(column));
      const uint next_buffer = (buffer + 1) % Tiles::buffers;
      decltype(stages.start(scores, qk_rows, kTilesOfQK, buffer, qk_tile, S)) S_started = {};
      if (!AHEAD) S_started = stages.start(scores, qk_rows, kTilesOfQK, buffer, qk_tile, S);
      const auto dS_started = stages.start(scores, vo_rows, kTilesOfVO, buffer, vo_tile, dS);  // dP
      if (!AHEAD) stages.template finish<1>(S_started, S);
      const uint last = column + Tiles::columns - 1, max_key = ROWS_ARE_QUERIES ? last : row + Tiles::rows - 1;
      const bool all_visible =
          last < end && row + Tiles::rows <= rows && (!p.causal || max_key <= (ROWS_ARE_QUERIES ? row : column));
      const bool adds_mask = tiles.adds(column, p);
      // Both branches end with the subtraction, so that the compiler need not move the scores to other registers.
      if (is_unmasked(all_visible, adds_mask, p))
        subtract_lse<ROWS_ARE_QUERIES>(P, S, p.scale * M_LOG2E_F, staged_lse + tile_stats);
      else
        subtract_lse<ROWS_ARE_QUERIES>(
            P, S, mask_scores<ROWS_ARE_QUERIES, Tiles::rows>(S, row, column, all_visible, adds_mask, mask_of_head, p),
            staged_lse + tile_stats);
      const auto next_tile = qk.slice(0, int(min(next, last_tile)));  // After the last tile, S is not used.
      if (AHEAD) S_started = stages.start(scores, qk_rows, kTilesOfQK, next_buffer, next_tile, S);
      stages.template finish<1 + AHEAD>(last_started, dQK_sum);
      MPSX_UNROLL
      for (ushort i = 0; i < P.get_capacity(); ++i) P[i] = fast::exp2(P[i]);
      threadgroup uint* const tile_kept = kept + parity * Dropout::size;
      if (!ROWS_ARE_QUERIES) {
        left = accumulate.template get_left_input_cooperative_tensor<T, T, float>(P);
        if (p.has_dropout) {
          auto kept_P = P;
          Dropout::apply(kept_P, tile_kept, p);
          left = accumulate.template get_left_input_cooperative_tensor<T, T, float>(kept_P);
        }
        last_started = stages.start(accumulate, left, kTilesOfVO, buffer, vo_tile, dV_sum);
      }
      stages.template finish<!ROWS_ARE_QUERIES + AHEAD>(dS_started, dS);
      if (p.has_dropout) Dropout::apply(dS, tile_kept, p);
      MPSX_UNROLL
      for (ushort i = 0; i < P.get_capacity(); ++i)
        dS[i] = P[i] * (dS[i] - staged_delta[tile_stats + P.get_multidimensional_index(i)[ROWS_ARE_QUERIES ? 1 : 0]]);
      const auto dV_started = last_started;
      left = accumulate.template get_left_input_cooperative_tensor<T, T, float>(dS);
      last_started = stages.start(accumulate, left, kTilesOfQK, buffer, qk_tile, dQK_sum);
      if (AHEAD) stages.template finish<1 + !ROWS_ARE_QUERIES>(S_started, S);
      if (!ROWS_ARE_QUERIES) stages.template finish<1>(dV_started, dV_sum);
      if (p.has_dropout) Dropout::fill(kept + (parity ^ 1) * Dropout::size, row, next, h, random, p, g);
      buffer = next_buffer;
    }
    stages.template finish<0>(last_started, dQK_sum);
  }
  stages.close();
  MPSX_UNROLL
  for (ushort i = 0; i < dQK_sum.get_capacity(); ++i) dQK_sum[i] *= p.scale;
  dQK_sum.mpsx_store(row_tensor(head_data(dQK, p.dQK, row_head, 1), p.dQK.row, row, rows, p.head_dim));
  if (!ROWS_ARE_QUERIES)
    dV_sum.mpsx_store(row_tensor(head_data(dV, p.dV, row_head, 1), p.dV.row, row, rows, p.v_head_dim));
}
