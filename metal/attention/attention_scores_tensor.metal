// Attention whose scores are stored in device memory: softmax, and P and dS for the backward pass. The launcher
// (src/ops/attention/unfused.cpp) computes the other products with GEMMs.
#include "attention/attention_tiles.h"
#include "lib/instantiate.h"
#include "lib/tensor_gemm.h"

// A row of S, which belongs to one query of one head. Each thread processes kVectors vectors of four scores at a time,
// so that enough loads are in flight.
enum : uint { kVectors = 4 };
struct ScoreRow {
  AttentionHead head;
  uint query;
  uint end;     // all later keys are masked
  ulong stats;  // index into lse
  ulong offset;
  device const float* mask;

  METAL_FUNC float score(float qk, uint key, constant AttentionParams& p) const {
    return masked_score(qk, query, key, p.has_mask, mask, p);
  }
  METAL_FUNC float kept(uint key, DropoutState random, constant AttentionParams& p) const {
    return p.has_dropout ? dropout_scale(query, key, head, random, p) : 1.0f;
  }
  // Loads vectors that are `g.count` vectors apart, from column `c` on.
  METAL_FUNC void load(thread float4 (&to)[kVectors], device const float* from, uint c, GroupThread g) const {
    MPSX_UNROLL
    for (uint v = 0; v < kVectors; ++v) {
      const uint column = c + v * g.count * 4;
      to[v] = column < end ? *(device const float4*)(from + offset + column) : float4(0.0f);
    }
  }
  METAL_FUNC void store(device float* to, thread const float4 (&from)[kVectors], uint c, GroupThread g) const {
    MPSX_UNROLL
    for (uint v = 0; v < kVectors; ++v) {
      const uint column = c + v * g.count * 4;
      if (column < end) *(device float4*)(to + offset + column) = from[v];
    }
  }
  METAL_FUNC void clear_masked(device float* to, constant ScoreBlock& b, GroupThread g) const {
    for (uint c = (end + 3) / 4 * 4 + g.index * 4; c < b.columns; c += g.count * 4)
      *(device float4*)(to + offset + c) = float4(0.0f);
  }
};
// Returns the query head that belongs to KV head `kv_head` of the block, counted through the batch.
inline uint query_head(constant AttentionParams& p, constant ScoreBlock& b, uint kv_head) {
  return (b.kv_head + kv_head) * p.gqa_factor + b.query_head;
}
inline ScoreRow score_row(device const float* mask, constant AttentionParams& p, constant ScoreBlock& b, uint3 group) {
  const uint head = query_head(p, b, group.y), query = b.query + group.x;
  const AttentionHead h = {head / p.q_heads, head % p.q_heads};
  return {h,
          query,
          p.causal ? min(b.columns, query + 1) : b.columns,
          ulong(head) * p.q_len + query,
          (ulong(group.y) * b.rows + group.x) * b.stride,
          head_mask(mask, h, p)};
}
// Loops over this thread's columns of a row, kVectors vectors at a time.
#define MPSX_FOR_COLUMNS(r, c, g) for (uint c = (g).index * 4; c < (r).end; c += (g).count * 4 * kVectors)

// Overwrites S with P = softmax(S * scale + mask), and stores the rows' lse. Dropout is applied to P.
kernel void attention_tensor_softmax(device float* S [[buffer(0)]], device float* lse [[buffer(1)]],
                                     device const float* mask [[buffer(2)]], device const ulong* seed [[buffer(3)]],
                                     device const ulong* offset [[buffer(4)]],
                                     constant AttentionParams& p [[buffer(5)]], constant ScoreBlock& b [[buffer(6)]],
                                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  threadgroup float scratch[kScratch];
  const ScoreRow r = score_row(mask, p, b, g.group);
  float4 s[kVectors];
  float row_max = -INFINITY, row_sum = 0.0f;
  MPSX_FOR_COLUMNS(r, c, g) {
    r.load(s, S, c, g);
    float new_max = row_max;
    MPSX_UNROLL
    for (uint i = 0; i < kVectors * 4; ++i) {
      s[i / 4][i % 4] = r.score(s[i / 4][i % 4], c + i / 4 * g.count * 4 + i % 4, p);
      new_max = max(new_max, s[i / 4][i % 4]);
    }
    // max() ignores NaN scores, but exp() propagates them.
    const float base = new_max == -INFINITY ? 0.0f : new_max;
    row_sum *= exp_score<float>(row_max - base);
    MPSX_UNROLL
    for (uint i = 0; i < kVectors * 4; ++i) row_sum += exp_score<float>(s[i / 4][i % 4] - base);
    row_max = new_max;
  }
  const float all_max = tg_max(row_max, scratch, g), base = all_max == -INFINITY ? 0.0f : all_max;
  row_sum = tg_sum(row_sum * exp_score<float>(row_max - base), scratch, g);
  const float scale = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;  // A query that attends to no key yields 0.
  if (g.index == 0) lse[r.stats] = row_sum == 0.0f ? -INFINITY : all_max + precise::log(row_sum);
  MPSX_FOR_COLUMNS(r, c, g) {
    r.load(s, S, c, g);
    MPSX_UNROLL
    for (uint i = 0; i < kVectors * 4; ++i) {
      const uint key = c + i / 4 * g.count * 4 + i % 4;
      s[i / 4][i % 4] = exp_score<float>(r.score(s[i / 4][i % 4], key, p) - base) * scale * r.kept(key, random, p);
    }
    r.store(S, s, c, g);
  }
  r.clear_masked(S, b, g);
}

// Stores delta = rowsum(dO * O). Two adjacent lanes each sum half of a row.
kernel void attention_tensor_backward_delta(device float* delta [[buffer(0)]], device const float* dO [[buffer(1)]],
                                            device const float* O [[buffer(2)]],
                                            constant AttentionParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const AttentionHead h = {g.group.z, g.group.y};
  const uint query = (g.group.x * g.count + g.index) / 2;
  const float sum = output_delta(rows_of(h.in(dO, p.dO, 1), p.dO.row, p.q_len, p.v_head_dim),
                                 rows_of(h.in(O, p.O, 1), p.O.row, p.q_len, p.v_head_dim), query, g.lane);
  if (g.lane % 2 == 0 && query < p.q_len) delta[(ulong(h.batch) * p.q_heads + h.head) * p.q_len + query] = sum;
}

// Replaces the scores of a tile by P = exp(S * scale + mask - lse). The tile's first row is `query`, and its first
// column is `key`. With ALL_VISIBLE, no score is masked or outside of S, so the checks are left out.
template <bool ALL_VISIBLE, typename Matrix>
METAL_FUNC void apply_softmax(thread Matrix& S, uint query, uint key, threadgroup const float* lse,
                              device const float* mask, constant AttentionParams& p) {
  MPSX_UNROLL
  for (ushort i = 0; i < S.get_capacity(); ++i) {
    const auto at = S.get_multidimensional_index(i);
    const uint row = uint(at[1]), q = query + row, k = key + uint(at[0]);
    if (ALL_VISIBLE)
      S[i] = exp_score<float>(fma(S[i], p.scale, -lse[row]));
    else
      S[i] = is_visible(q, k, p) ? exp_score<float>(masked_score(S[i], q, k, p.has_mask, mask, p) - lse[row]) : 0.0f;
  }
}

// Computes a tile of P, to which dropout is applied, and of dS * scale. They are 0 where a query may not attend to a
// key. Grid: (tiles, heads).
typedef TensorTile<ScoreTile::rows, ScoreTile::columns, ScoreTile::rows / 16, false> Tile;
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void attention_tensor_backward_scores(device float* P [[buffer(0)]], device float* dS [[buffer(1)]],
                                             device const float* lse [[buffer(2)]],
                                             device const float* delta [[buffer(3)]], device float* Q [[buffer(4)]],
                                             device float* K [[buffer(5)]], device float* V [[buffer(6)]],
                                             device float* dO [[buffer(7)]], device const float* mask [[buffer(8)]],
                                             device const ulong* seed [[buffer(9)]],
                                             device const ulong* offset [[buffer(10)]],
                                             constant AttentionParams& p [[buffer(11)]],
                                             constant ScoreBlock& b [[buffer(12)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const DropoutState random = {seed, offset};
  threadgroup float row_lse[Tile::BM], row_delta[Tile::BM];
  typedef KeptScores<ScoreTile, true> Dropout;
  threadgroup uint kept[Dropout::size];
  const TileOffset tile = raster_tile<Tile>(g.group.x, b.rows, b.columns);
  const uint head = query_head(p, b, g.group.y), query = b.query + tile.m;
  const AttentionHead h = {head / p.q_heads, head % p.q_heads};
  const uint end = b.query + b.rows;
  auto Q_rows = row_tensor(head_data(Q, p.Q, h, 1), p.Q.row, query, end, p.head_dim);
  auto K_rows = row_tensor(head_data(K, p.K, h, p.gqa_factor), p.K.row, tile.n, b.columns, p.head_dim);
  auto dO_rows = row_tensor(head_data(dO, p.dO, h, 1), p.dO.row, query, end, p.v_head_dim);
  auto V_rows = row_tensor(head_data(V, p.V, h, p.gqa_factor), p.V.row, tile.n, b.columns, p.v_head_dim);
  const ulong tile_offset = ulong(g.group.y) * b.rows * b.stride + tile.n;
  const auto P_tile = row_tensor(P + tile_offset, b.stride, tile.m, b.rows, b.columns - tile.n);
  const auto dS_tile = row_tensor(dS + tile_offset, b.stride, tile.m, b.rows, b.columns - tile.n);
  TensorMultiply<Tile, false, true, false> multiply;
  auto prob = multiply.get_destination_cooperative_tensor<decltype(Q_rows), decltype(K_rows), float>();
  auto grad = prob;
  if (p.causal && tile.n >= query + Tile::BM) {
    MPSX_UNROLL
    for (ushort i = 0; i < prob.get_capacity(); ++i) prob[i] = 0.0f;
    prob.store(P_tile);
    prob.store(dS_tile);
    return;
  }
  for (uint i = g.index; i < Tile::BM; i += g.count) {
    const ulong stats = ulong(head) * p.q_len + min(query + i, end - 1);
    row_lse[i] = lse_to_subtract(lse[stats]), row_delta[i] = delta[stats];
  }
  if (p.has_dropout) Dropout::fill(kept, query, tile.n, h, random, p, g);
  tg_barrier();
  multiply.run(Q_rows, K_rows, prob);
  const bool all_visible = !p.has_mask && query + Tile::BM <= end && tile.n + Tile::BN <= b.columns &&
                           (!p.causal || tile.n + Tile::BN <= query + 1);
  if (all_visible)
    apply_softmax<true>(prob, query, tile.n, row_lse, mask, p);
  else
    apply_softmax<false>(prob, query, tile.n, row_lse, head_mask(mask, h, p), p);
  if (p.has_dropout) {
    auto kept_prob = prob;
    Dropout::apply(kept_prob, kept, p);
    kept_prob.store(P_tile);
  } else {
    prob.store(P_tile);
  }
  multiply.run(dO_rows, V_rows, grad);
  if (p.has_dropout) Dropout::apply(grad, kept, p);
  MPSX_UNROLL
  for (ushort i = 0; i < grad.get_capacity(); ++i)
    grad[i] = score_grad(prob[i], grad[i], row_delta[grad.get_multidimensional_index(i)[1]]) * p.scale;
  grad.store(dS_tile);
}
