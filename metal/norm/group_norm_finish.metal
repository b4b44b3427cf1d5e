// group_norm with the help of the batch_norm kernels, which read and write the batch. The kernels in this file merge
// the statistics of an image's channels into statistics of channel groups. W: type of the weight, the bias, the
// statistics and their gradients.
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/types.h"
#include "norm/batch_norm.h"

// Stores three coefficients per image and channel for (x - mean) * scale + bias. group = (channel group, image).
template <typename W>
kernel void group_norm_finish(device float* coefficients [[buffer(0)]], device W* out_means [[buffer(1)]],
                              device W* out_rstds [[buffer(2)]], device const float* partial [[buffer(3)]],
                              device const W* weight [[buffer(4)]], device const W* bias [[buffer(5)]],
                              constant BatchNormParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint first = g.group.x * p.group_channels;
  const uint slots = p.span_chunks;  // partial results per image and channel
  const ulong pitch = p.channel_slots, quantity = ulong(p.channels) * p.images * slots;
  device const float* counts = partial + (ulong(first) * pitch + ulong(g.group.y) * p.image_slots);
  device const float* means = counts + quantity;
  device const float* roots = means + quantity;
  const float count = float(p.plane * p.group_channels), base = is_infinite(means[0]) ? 0.0f : means[0];
  float mean = 0.0f, m2 = 0.0f, scale = 1.0f;
  for (;; scale = kSquareScale) {  // if the squares overflow, repeat with scaled values
    float sum = 0.0f;
    m2 = 0.0f;
    for (uint k = g.index; k < p.group_channels * slots; k += g.count) {
      const ulong slot = k / slots * pitch + k % slots;
      sum += counts[slot] * (means[slot] * scale - base * scale);
    }
    mean = base * scale + tg_sum(sum, scratch, g) / count;
    for (uint k = g.index; k < p.group_channels * slots; k += g.count) {
      const ulong slot = k / slots * pitch + k % slots;
      const float d = means[slot] * scale - mean, root = roots[slot] * scale;
      m2 += counts[slot] * fma(root, root, d * d);
    }
    m2 = tg_sum(m2, scratch, g);
    if (m2 <= FLT_MAX || scale < 1.0f) break;
  }
  mean /= scale;
  const float rstd = scale / precise::sqrt(m2 / count + p.eps * scale * scale);
  if (g.index == 0) {
    out_means[ulong(g.group.y) * p.groups + g.group.x] = W(mean);
    out_rstds[ulong(g.group.y) * p.groups + g.group.x] = W(rstd);
  }
  const ulong width = ulong(p.images) * p.channels;
  device float* to = coefficients + (ulong(g.group.y) * p.channels + first);
  for (uint c = g.index; c < p.group_channels; c += g.count) {
    const float weighted = p.has_weight ? rstd * float(weight[first + c]) : rstd;
    const float shift = p.has_bias ? float(bias[first + c]) : 0.0f;
    const bool folds = must_fold(mean, weighted);
    to[c] = folds ? 0.0f : mean;
    to[width + c] = weighted;
    to[2 * width + c] = folds ? shift - mean * weighted : shift;
  }
}

// Stores the sum of the gradient in sums[0][image][channel] and the sum of the gradient times the normalized input in
// sums[1][image][channel]. Also stores five coefficients per image and channel. The input gradient is dy * scale -
// shift - (x - mean) * rstd * slope. group = (channel group, image).
template <typename W>
kernel void group_norm_bwd_finish(device float* coefficients [[buffer(0)]], device float* sums [[buffer(1)]],
                                  device const float* partial [[buffer(2)]], device const W* means [[buffer(3)]],
                                  device const W* rstds [[buffer(4)]], device const W* weight [[buffer(5)]],
                                  constant BatchNormParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint first = g.group.x * p.group_channels;
  const ulong row = ulong(g.group.y) * p.groups + g.group.x;
  const float mean = float(means[row]), rstd = float(rstds[row]);
  const uint slots = p.span_chunks;  // partial results per image and channel
  const ulong pitch = p.channel_slots;
  device const float* gradients = partial + (ulong(first) * pitch + ulong(g.group.y) * p.image_slots);
  device const float* dots = gradients + ulong(p.channels) * p.images * slots;
  device float* image_sums = sums + row * p.group_channels;
  device float* image_dots = image_sums + ulong(p.images) * p.channels;
  float sum = 0.0f, dot = 0.0f;
  for (uint c = g.index; c < p.group_channels; c += g.count) {
    const ulong slot = ulong(c) * pitch;
    float s = 0.0f, d = 0.0f;
    for (uint i = 0; i < slots; ++i) {
      s += gradients[slot + i];
      d += dots[slot + i];
    }
    d *= rstd;
    image_sums[c] = s;
    image_dots[c] = d;
    const float w = p.has_weight ? float(weight[first + c]) : 1.0f;
    sum += w * s;
    dot += w * d;
  }
  const float count = float(p.plane * p.group_channels);
  const float shift = rstd * tg_sum(sum, scratch, g) / count, slope = rstd * tg_sum(dot, scratch, g) / count;
  const ulong width = ulong(p.images) * p.channels;
  device float* to = coefficients + (ulong(g.group.y) * p.channels + first);
  for (uint c = g.index; c < p.group_channels; c += g.count) {
    const float scale = p.has_weight ? rstd * float(weight[first + c]) : rstd;
    to[c] = mean;
    to[width + c] = scale;
    to[2 * width + c] = shift;
    to[3 * width + c] = rstd;
    to[4 * width + c] = slope;
  }
}

#define GROUP_NORM_FINISH(W, TAG, ...)                         \
  MPSX_KERNEL("group_norm_finish_" #TAG, group_norm_finish<W>) \
  MPSX_KERNEL("group_norm_bwd_finish_" #TAG, group_norm_bwd_finish<W>)
MPSX_FOR_FLOAT(GROUP_NORM_FINISH, )
