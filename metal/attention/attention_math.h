// Functions of a single attention score, which all attention kernels share.
#pragma once

#include "attention/attention_params.h"
#include "lib/math.h"

// Selects one query head. `group` is the number of query heads that share a head of `data` (GQA).
struct AttentionHead {
  uint batch, head;
  template <typename T>
  device const T* in(device const T* data, AttentionStrides s, uint group) const {
    return data + (long(batch) * s.batch + long(head / group) * s.head);
  }
};

// Returns the part of a mask that a head uses. The mask has elements of type T, or float32.
template <typename T>
inline device const T* head_mask(device const T* mask, AttentionHead h, constant AttentionParams& p) {
  if (!p.has_mask) return mask;
  const long offset = long(h.batch) * p.mask_batch + long(h.head) * p.mask_head;
  return p.mask_is_float ? (device const T*)((device const float*)mask + offset) : mask + offset;
}
inline bool is_visible(uint query, uint key, constant AttentionParams& p) {
  return query < p.q_len && key < p.kv_len && !(p.causal && key > query);
}
// Returns the scaled score plus the attention mask, or -inf if the query may not attend to the key.
template <typename T>
inline float masked_score(float qk, uint query, uint key, bool reads_mask, device const T* mask,
                          constant AttentionParams& p) {
  if (!is_visible(query, key, p)) return -INFINITY;
  float attn_bias = 0.0f;
  if (reads_mask) {
    const long i = long(query) * p.mask_row + key;
    attn_bias = p.mask_is_float ? ((device const float*)mask)[i] : float(mask[i]);
  }
  return qk * p.scale + attn_bias;
}

// Returns exp(x) for x <= 0. fast::exp2 is precise enough for 16-bit probabilities.
template <typename T>
inline float exp_score(float x) {
  return sizeof(T) == 2 ? fast::exp2(x * M_LOG2E_F) : exp_nonpositive(x);
}

// Returns the value that P = exp(S - lse) subtracts. It is +inf if the query attends to no key, so that P is 0.
inline float lse_to_subtract(float lse) { return lse == -INFINITY ? INFINITY : lse; }
// Returns dS = P (dP - delta).
inline float score_grad(float P, float dP, float delta) { return P == 0.0f ? 0.0f : P * (dP - delta); }
