// Functions of a single attention score, which all attention kernels share.
#pragma once

#include "attention/attention_params.h"
#include "lib/math.h"
#include "lib/random.h"

// Selects one query head. `group` is the number of query heads that share a head of `data` (GQA).
struct AttentionHead {
  uint batch, head;
  template <typename T>
  device const T* in(device const T* data, AttentionStrides s, uint group) const {
    return data + (long(batch) * s.batch + long(head / group) * s.head);
  }
};

// Returns the scaled score plus the attention mask, or -inf if the query may not attend to the key.
inline float masked_score(float qk, uint query, uint key, device const float* mask, constant AttentionParams& p) {
  const bool visible = query < p.q_len && key < p.kv_len && !(p.causal && key > query);
  if (!visible) return -INFINITY;
  const float attn_bias = p.has_mask ? mask[long(query) * p.mask_row + long(key) * p.mask_column] : 0.0f;
  return qk * p.scale + attn_bias;
}

// Returns exp(x) for x <= 0. fast::exp2 is precise enough for 16-bit probabilities.
template <typename T>
inline float exp_score(float x) {
  return sizeof(T) == 2 ? fast::exp2(x * M_LOG2E_F) : exp_nonpositive(x);
}

// Returns the random numbers that decide which scores to drop, one for each of the keys 4 * block to 4 * block + 3.
// Each pass computes them again.
inline PhiloxBlock dropout_bits(uint query, uint block, AttentionHead h, constant AttentionParams& p) {
  const ulong row = (ulong(h.batch) * p.q_heads + h.head) * p.q_len + query;
  return philox(p.seed, p.philox_offset + row * ((p.kv_len + 3) / 4) + block);
}
// Returns the factor by which dropout multiplies a probability: 0 or 1 / (1 - p).
inline float dropout_scale(uint query, uint key, AttentionHead h, constant AttentionParams& p) {
  const PhiloxBlock r = dropout_bits(query, key / 4, h, p);
  const uint i = key % 4, word = i < 2 ? (i == 0 ? r.x : r.y) : (i == 2 ? r.z : r.w);
  return word <= p.keep_bound ? p.keep_scale : 0.0f;
}

// Returns the value that P = exp(S - lse) subtracts. It is +inf if the query attends to no key, so that P is 0.
inline float lse_to_subtract(float lse) { return lse == -INFINITY ? INFINITY : lse; }
// Returns dS = P (dP - delta).
inline float score_grad(float P, float dP, float delta) { return P == 0.0f ? 0.0f : P * (dP - delta); }
