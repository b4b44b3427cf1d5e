// cross_entropy of rows of logits and class indices. This is nll_loss of log_softmax, without storing
// log-probabilities.
#include "lib/exp.h"
#include "lib/instantiate.h"
#include "lib/row.h"
#include "loss/nll_loss.h"

// exp with the precision of half, which is enough for the terms of a long sum.
struct HalfExp {
  float at(float x) const { return exp_nonpositive_as<half>(x); }
};

// Returns this thread's maximum m (at least -FLT_MAX, ignoring NaN) and its sum of exp(x - m). Needs only one pass,
// because it rescales the sum at each new maximum.
template <typename T>
inline float2 online_softmax(thread RegisterRow<Loader<T>>& row) {
  enum : uint { kVector = RegisterRow<Loader<T>>::kVector, kVectors = RegisterRow<Loader<T>>::kVectors };
  const HalfExp f = {};
  float row_max = -FLT_MAX, sum = 0.0f;
  do {
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      if (row.number(k) >= row.vectors) continue;
      float v[kVector];
      row.values(v, k);
      float new_max = row_max, part = 0.0f;
#pragma unroll
      for (uint j = 0; j < kVector; ++j) new_max = fmax(new_max, v[j]);
#pragma unroll
      for (uint j = 0; j < kVector; ++j) part += f.at(v[j] - new_max);
      sum = fma(sum, f.at(row_max - new_max), part);
      row_max = new_max;
    }
  } while (row.next_batch());
  for (uint e = row.index; e < row.scalars; e += row.count) {
    const float x = row.in.scalar(row.scalar_offset(e)), new_max = fmax(row_max, x);
    sum = fma(sum, f.at(row_max - new_max), f.at(x - new_max));
    row_max = new_max;
  }
  return float2(row_max, sum);
}

// Stores the row maximum and the logarithm of the row's sum separately, because their sum would lose digits of the
// smaller one. `losses` receives one loss per row or, if the loss is reduced, each threadgroup's sums of losses and
// weights.
template <typename T>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void cross_entropy_rows(device float* losses [[buffer(0)]], device float* norms [[buffer(1)]],
                               device const T* in [[buffer(2)]], device const long* target [[buffer(3)]],
                               device const float* weight [[buffer(4)]], constant CrossEntropyParams& p [[buffer(5)]],
                               device ErrorRecord* errors [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  threadgroup float2 sums[kScratch];
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  float2 own = float2(0.0f);
  if (group.row < p.shape.rows) {
    RegisterRow<Loader<T>> row;
    row.open({in + ulong(group.row) * p.shape.size}, p.shape, group);
    float target_logit = 0.0f;
    long offset = -1;
    if (group.index == 0) {  // issue this load together with the loads of the row
      own.y = sample_weight(offset, group.row, target, weight, p.loss, errors);
      if (offset >= 0) target_logit = float(in[offset]);
    }
    const float2 thread_sum = online_softmax(row);
    const float row_max = rg_reduce<CombineMax>(thread_sum.x, scratch, group, g);
    const float scaled = thread_sum.y * HalfExp().at(thread_sum.x - row_max);
    const float log_sum = precise::log(rg_reduce<CombineSum>(scaled, scratch, group, g));
    if (group.index == 0) {
      norms[2 * ulong(group.row)] = row_max;
      norms[2 * ulong(group.row) + 1] = log_sum;
      if (offset >= 0) own.x = -own.y * (target_logit - row_max - log_sum);
      if (!p.loss.reduced) losses[group.row] = own.x;
    }
  }
  if (!p.loss.reduced) return;
  store_sums(losses, group.spans_threadgroup ? own : tg_sum(own, sums, g), g);
}

// Computes the gradient (softmax(x) - is_target) * scale.
template <typename T>
struct CrossEntropyGradient {
  float row_max, log_sum, scale;
  float at(float x, float is_target) const {
    return (exp_nonpositive_as<T>(x - row_max - log_sum) - is_target) * scale;
  }
};
// Returns 1 at the target and 0 elsewhere.
struct IsTarget {
  uint target;
  struct Raw {
    uint index;
  };
  template <uint N>
  Raw load(uint i) const { return {i}; }
  float at(Raw raw, uint j) const { return scalar(raw.index + j); }
  float scalar(uint i) const { return i == target ? 1.0f : 0.0f; }
};

template <typename T>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void cross_entropy_bwd(device T* grad_in [[buffer(0)]], device const float* grad_out [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const long* target [[buffer(3)]],
                              device const float* weight [[buffer(4)]], device const float* norms [[buffer(5)]],
                              device const float* total_weight [[buffer(6)]],
                              constant CrossEntropyParams& p [[buffer(7)]], device ErrorRecord* errors [[buffer(8)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p.shape, group);
  long offset;
  float scale = sample_weight(offset, group.row, target, weight, p.loss, errors);
  scale *= grad_out[p.loss.reduced ? 0 : group.row];
  if (offset < 0) scale = 0.0f;  // if all samples are ignored, the total weight is 0
  else if (p.loss.mean) scale /= total_weight[0];
  // Load the target again, because the row needs all registers and `offset` would take one of them.
  row.store(grad_in + start, IsTarget{uint(target[group.row])},
            CrossEntropyGradient<T>{norms[2 * ulong(group.row)], norms[2 * ulong(group.row) + 1], scale});
}

#define CROSS_ENTROPY(T, TAG, ...)                               \
  MPSX_KERNEL("cross_entropy_rows_" #TAG, cross_entropy_rows<T>) \
  MPSX_KERNEL("cross_entropy_bwd_" #TAG, cross_entropy_bwd<T>)
MPSX_FOR_FLOAT(CROSS_ENTROPY, )
