// The weights of samples, and sums of losses, for nll_loss and cross_entropy.
#pragma once

#include "lib/columns.h"
#include "lib/compute.h"
#include "lib/error.h"
#include "loss/params.h"

// Returns the weight of sample `s`. Sets `offset` to the offset of its input element. For an ignored sample, the weight
// is 0 and the offset -1.
template <typename T>
inline float sample_weight(thread long& offset, uint s, device const long* target, device const T* weight,
                           constant NllParams& p, device ErrorRecord* errors) {
  const long t = target[s];
  offset = -1;
  if (t == p.ignore_index) return 0.0f;
  if (t < 0 || t >= p.classes) {
    report_index(errors, 1, t, p.classes);
    return 0.0f;
  }
  if (p.inner == 1) {
    offset = long(s) * p.classes + t;
  } else {
    const uint n = s / p.inner;
    offset = (long(n) * p.classes + t) * p.inner + (s - n * p.inner);
  }
  return p.has_weight ? float(weight[t]) : 1.0f;
}

// Compensated sums of losses and of their weights.
struct LossSums {
  typedef Accumulator<CombineSum> Sum;
  float loss, loss_low, weight, weight_low;
  void add(float more_loss, float more_weight) {
    Sum::accumulate(loss, loss_low, more_loss);
    Sum::accumulate(weight, weight_low, more_weight);
  }
  // Adds this thread's share of the (loss, weight) pairs.
  void add_pairs(device const float* pairs, uint begin, uint end, GroupThread g) {
    for (uint i = begin + g.index; i < end; i += g.count) add(pairs[2 * i], pairs[2 * i + 1]);
  }
  // Returns the threadgroup's sums in every thread.
  float2 total(threadgroup float2* scratch, GroupThread g) const {
    return tg_sum(float2(Sum::finalize(loss, loss_low), Sum::finalize(weight, weight_low)), scratch, g);
  }
};

inline void store_sums(device float* sums, float2 total, GroupThread g) {
  if (g.index > 0) return;
  sums[2 * g.group.x] = total.x;
  sums[2 * g.group.x + 1] = total.y;
}
