// nll_loss and its backward pass, for inputs (n, classes) and (n, classes, …).
#include "lib/instantiate.h"
#include "loss/nll_loss.h"

template <typename T>
kernel void nll_loss(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     device const long* target [[buffer(2)]], device const T* weight [[buffer(3)]],
                     constant NllParams& p [[buffer(4)]], device ErrorRecord* errors [[buffer(5)]],
                     uint s [[thread_position_in_grid]]) {
  long offset;
  const float w = sample_weight(offset, s, target, weight, p, errors);
  out[s] = offset < 0 ? T(0.0f) : T(-w * float(in[offset]));
}

// Sums the losses and weights of the samples that each threadgroup processes.
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
  store_sums(sums, own.total(scratch, g), g);
}

// Merges kNllSamples (loss, weight) pairs per threadgroup, if there are too many pairs for a single threadgroup.
kernel void nll_loss_merge(device float* sums [[buffer(0)]], device const float* in [[buffer(1)]],
                           constant uint& count [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  LossSums own = {0.0f, 0.0f, 0.0f, 0.0f};
  const uint begin = g.group.x * kNllSamples;
  own.add_pairs(in, begin, min(begin + kNllSamples, count), g);
  store_sums(sums, own.total(scratch, g), g);
}

// Reduces the sums of all threadgroups and stores the loss. Runs in one threadgroup.
template <typename T, typename W>
kernel void nll_loss_finish(device T* out [[buffer(0)]], device W* total_weight [[buffer(1)]],
                            device const float* in [[buffer(2)]], constant uint& count [[buffer(3)]],
                            constant NllParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  LossSums own = {0.0f, 0.0f, 0.0f, 0.0f};
  own.add_pairs(in, 0, count, g);
  const float2 total = own.total(scratch, g);
  if (g.index > 0) return;
  out[0] = T(p.mean ? total.x / total.y : total.x);
  total_weight[0] = W(total.y);
}

// Writes only the element at each sample's target. The launcher has already zeroed grad_in.
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
  MPSX_KERNEL("nll_loss_finish_" #TAG, nll_loss_finish<T, T>) \
  MPSX_KERNEL("nll_loss_bwd_" #TAG, nll_loss_bwd<T>)
MPSX_FOR_FLOAT(NLL, )
MPSX_KERNEL("nll_loss_finish_f16_f32", nll_loss_finish<half, float>)
MPSX_KERNEL("nll_loss_finish_bf16_f32", nll_loss_finish<bfloat, float>)
