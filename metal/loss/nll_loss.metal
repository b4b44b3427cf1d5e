// nll_loss and its backward, for inputs (n, classes) and (n, classes, …).
#include "lib/instantiate.h"
#include "lib/columns.h"
#include "lib/compute.h"
#include "lib/error.h"
#include "loss/params.h"

// The weight of sample `s`, and where in the input its element lies; weight 0 and offset -1 for an ignored one.
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

template <typename T>
kernel void nll_loss(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     device const long* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                     constant NllParams& p [[buffer(4)]], device ErrorRecord* errors [[buffer(5)]],
                     uint s [[thread_position_in_grid]]) {
  long offset;
  const float w = sample_weight(offset, s, target, weight, p, errors);
  out[s] = offset < 0 ? T(0.0f) : T(-w * float(in[offset]));
}

// Sums of losses and of their weights, which keep rounding errors.
struct LossSums {
  typedef Fold<CombineSum> Sum;
  float loss, loss_low, weight, weight_low;
  void add(float more_loss, float more_weight) {
    Sum::add(loss, loss_low, more_loss);
    Sum::add(weight, weight_low, more_weight);
  }
  // Of the whole threadgroup, in every thread.
  float2 total(threadgroup float2* scratch, GroupThread g) const {
    return tg_sum(float2(Sum::settle(loss, loss_low), Sum::settle(weight, weight_low)), scratch, g);
  }
};

// A threadgroup's share of the samples: their losses added up, and their weights.
template <typename T>
kernel void nll_loss_sums(device float* sums [[buffer(0)]], device const T* in [[buffer(1)]],
                          device const long* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                          constant NllParams& p [[buffer(4)]], device ErrorRecord* errors [[buffer(5)]],
                          MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  LossSums own = {0.0f, 0.0f, 0.0f, 0.0f};
  const uint begin = g.group.x * kNllSamples, end = min(begin + kNllSamples, p.samples);
  for (uint s = begin + g.index; s < end; s += g.count) {
    long offset;
    const float w = sample_weight(offset, s, target, weight, p, errors);
    if (offset >= 0) own.add(-w * float(in[offset]), w);
  }
  const float2 total = own.total(scratch, g);
  if (g.index > 0) return;
  sums[2 * g.group.x] = total.x;
  sums[2 * g.group.x + 1] = total.y;
}

// One threadgroup adds up all of their sums.
template <typename T>
kernel void nll_loss_finish(device T* out [[buffer(0)]], device T* total_weight [[buffer(1)]],
                            device const float* in [[buffer(2)]], constant uint& count [[buffer(3)]],
                            constant NllParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  LossSums own = {0.0f, 0.0f, 0.0f, 0.0f};
  for (uint i = g.index; i < count; i += g.count) own.add(in[2 * i], in[2 * i + 1]);
  const float2 total = own.total(scratch, g);
  if (g.index > 0) return;
  out[0] = T(p.mean ? total.x / total.y : total.x);
  total_weight[0] = T(total.y);
}

// The input's gradient has been filled with zeros. Each sample owns the element of its target.
template <typename T>
kernel void nll_loss_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                         device const long* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                         device const T* total_weight [[buffer(4)]], constant NllParams& p [[buffer(5)]],
                         device ErrorRecord* errors [[buffer(6)]], uint s [[thread_position_in_grid]]) {
  long offset;
  const float w = sample_weight(offset, s, target, weight, p, errors);
  if (offset < 0) return;
  const float g = float(grad_out[p.reduced ? 0 : s]);
  grad_in[offset] = T(p.mean ? -w * g / float(total_weight[0]) : -w * g);
}

#define NLL(T, TAG, ...)                                      \
  MPSX_KERNEL("nll_loss_" #TAG, nll_loss<T>)                  \
  MPSX_KERNEL("nll_loss_sums_" #TAG, nll_loss_sums<T>)        \
  MPSX_KERNEL("nll_loss_finish_" #TAG, nll_loss_finish<T>)    \
  MPSX_KERNEL("nll_loss_bwd_" #TAG, nll_loss_bwd<T>)
MPSX_FOR_FLOAT(NLL, )
