// Softmax of attention scores that are stored in device memory, forward and backward. The launcher
// (src/ops/attention/unfused.cpp) computes the products with GEMMs.
#include "attention/attention_math.h"
#include "lib/instantiate.h"
#include "lib/math.h"
#include "lib/threadgroup.h"

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
  METAL_FUNC float kept(uint key, constant AttentionParams& p) const {
    return p.has_dropout ? dropout_scale(query, key, head, p) : 1.0f;
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
inline ScoreRow score_row(device const float* mask, constant AttentionParams& p, constant ScoreBlock& b, uint3 group) {
  const uint head = (b.kv_head + group.y) * p.gqa_factor + b.query_head, query = b.query + group.x;
  const AttentionHead h = {head / p.q_heads, head % p.q_heads};
  return {h,
          query,
          p.causal ? min(b.columns, query + 1) : b.columns,
          ulong(head) * p.q_len + query,
          (ulong(group.y) * b.rows + group.x) * b.stride,
          p.has_mask ? mask + (long(h.batch) * p.mask_batch + long(h.head) * p.mask_head) : mask};
}
// Loops over this thread's columns of a row, kVectors vectors at a time.
#define MPSX_FOR_COLUMNS(r, c, g) for (uint c = (g).index * 4; c < (r).end; c += (g).count * 4 * kVectors)

// Overwrites S with P = softmax(S * scale + mask), and stores the rows' lse. Dropout is applied to P.
kernel void attention_tensor_softmax(device float* S [[buffer(0)]], device float* lse [[buffer(1)]],
                                     device const float* mask [[buffer(2)]], constant AttentionParams& p [[buffer(3)]],
                                     constant ScoreBlock& b [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
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
      s[i / 4][i % 4] = exp_score<float>(r.score(s[i / 4][i % 4], key, p) - base) * scale * r.kept(key, p);
    }
    r.store(S, s, c, g);
  }
  r.clear_masked(S, b, g);
}

// Overwrites S with P, to which dropout is applied, and dP with dS * scale.
kernel void attention_tensor_softmax_backward(device float* S [[buffer(0)]], device float* dP [[buffer(1)]],
                                              device const float* lse [[buffer(2)]],
                                              device const float* mask [[buffer(3)]],
                                              constant AttentionParams& p [[buffer(4)]],
                                              constant ScoreBlock& b [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ScoreRow r = score_row(mask, p, b, g.group);
  const float row_lse = lse_to_subtract(lse[r.stats]);
  float4 s[kVectors], grad[kVectors];
  float delta = 0.0f;  // rowsum(P * dP), which equals rowsum(dO * O)
  MPSX_FOR_COLUMNS(r, c, g) {
    r.load(s, S, c, g);
    r.load(grad, dP, c, g);
    MPSX_UNROLL
    for (uint i = 0; i < kVectors * 4; ++i) {
      const uint key = c + i / 4 * g.count * 4 + i % 4;
      const float prob = exp_score<float>(r.score(s[i / 4][i % 4], key, p) - row_lse);
      delta += prob == 0.0f ? 0.0f : prob * (grad[i / 4][i % 4] * r.kept(key, p));
    }
  }
  delta = tg_sum(delta, scratch, g);
  MPSX_FOR_COLUMNS(r, c, g) {
    r.load(s, S, c, g);
    r.load(grad, dP, c, g);
    MPSX_UNROLL
    for (uint i = 0; i < kVectors * 4; ++i) {
      const uint key = c + i / 4 * g.count * 4 + i % 4;
      const float prob = exp_score<float>(r.score(s[i / 4][i % 4], key, p) - row_lse), kept = r.kept(key, p);
      grad[i / 4][i % 4] = score_grad(prob, grad[i / 4][i % 4] * kept, delta) * p.scale;
      s[i / 4][i % 4] = prob * kept;
    }
    r.store(S, s, c, g);
    r.store(dP, grad, c, g);
  }
  r.clear_masked(S, b, g);
  r.clear_masked(dP, b, g);
}
