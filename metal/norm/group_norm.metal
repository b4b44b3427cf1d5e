// group_norm and its backward. The channels of one group of one image are one stretch of memory, and one threadgroup's.
// T: type of the batch, W: of weight, bias, statistics and their gradients.
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/types.h"
#include "norm/batch_norm_params.h"

// Elements whose mean and deviations are found together, while they are in the first cache.
constexpr constant uint kStretch = 8192;

// This thread's share of `length` elements: the corrected two-pass algorithm, see batch_norm_stats. The mean is told as
// its distance from `pivot`, which the first stretch finds: means that differ little would lose that if they were
// rounded to their own size.
template <typename T>
inline Moments stretch_moments(device const T* x, uint length, bool first, thread float& pivot, GroupThread g) {
  const uint own = length > g.index ? (length - g.index + g.count - 1) / g.count : 0;
  const float count = float(own), divisor = max(count, 1.0f);
  float sum = 0.0f, rest = 0.0f, m2 = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < length; i += g.count) sum += float(x[i]);
  const float mean = sum / divisor;
  MPSX_REDUCE(+ : rest, m2)
  for (uint i = g.index; i < length; i += g.count) {
    const float d = float(x[i]) - mean;
    rest += d;
    m2 += d * d;
  }
  const float off = rest / divisor;
  if (first) pivot = mean;
  return {count, own ? (mean - pivot) + off : 0.0f, m2 - rest * off};
}

// group = (group of channels, image).
template <typename T, typename W>
kernel void group_norm(device T* out [[buffer(0)]], device W* means [[buffer(1)]], device W* rstds [[buffer(2)]],
                       device const T* in [[buffer(3)]], device const W* weight [[buffer(4)]],
                       device const W* bias [[buffer(5)]], constant GroupNormParams& p [[buffer(6)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments scratch[kScratch];
  threadgroup float pivots[1];
  const ulong size = p.plane * p.channels, row = ulong(g.group.y) * p.groups + g.group.x;
  device const T* x = in + row * size;
  device T* y = out + row * size;
  Moments m = {0.0f, 0.0f, 0.0f};
  float pivot = 0.0f;
  for (ulong start = 0; start < size; start += kStretch) {
    const uint length = uint(min(ulong(kStretch), size - start));
    m = CombineMoments::apply(m, stretch_moments(x + start, length, start == 0, pivot, g));
  }
  const float common = tg_broadcast(pivot, 0, pivots, g);
  m.mean += m.count > 0.0f ? pivot - common : 0.0f;
  m = tg_moments(m, scratch, g);
  const float mean = common + m.mean, rstd = 1.0f / precise::sqrt(m.m2 / m.count + p.eps);
  if (g.index == 0) {
    means[row] = W(mean);
    rstds[row] = W(rstd);
  }
  const uint first = g.group.x * p.channels;
  if (p.plane == 1 && p.has_weight && p.has_bias) {
    MPSX_VECTORIZE
    for (uint c = g.index; c < p.channels; c += g.count)
      y[c] = T(fma((float(x[c]) - mean) * rstd, float(weight[first + c]), float(bias[first + c])));
    return;
  }
  for (uint c = 0; c < p.channels; ++c) {
    const float scale = p.has_weight ? rstd * float(weight[first + c]) : rstd;
    const float shift = p.has_bias ? float(bias[first + c]) : 0.0f;
    device const T* from = x + c * p.plane;
    device T* to = y + c * p.plane;
    MPSX_VECTORIZE
    for (ulong i = g.index; i < p.plane; i += g.count) to[i] = T(fma(float(from[i]) - mean, scale, shift));
  }
}

// group = (group of channels, image). `sums`: for every image and channel the sum of the gradient, then (all of those
// later) of the gradient times the normalised input.
template <typename T, typename W>
kernel void group_norm_bwd(device T* grad_in [[buffer(0)]], device float* sums [[buffer(1)]],
                           device const T* grad_out [[buffer(2)]], device const T* in [[buffer(3)]],
                           device const W* means [[buffer(4)]], device const W* rstds [[buffer(5)]],
                           device const W* weight [[buffer(6)]], constant GroupNormParams& p [[buffer(7)]],
                           MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ulong size = p.plane * p.channels, row = ulong(g.group.y) * p.groups + g.group.x;
  device const T* x = in + row * size;
  device const T* dy = grad_out + row * size;
  device T* dx = grad_in + row * size;
  const float mean = float(means[row]), rstd = float(rstds[row]);
  const uint first = g.group.x * p.channels;
  device float* image_sums = sums + row * p.channels;
  device float* image_dots = image_sums + ulong(p.images) * p.groups * p.channels;
  float sum = 0.0f, dot = 0.0f;  // of the whole group, weighted
  for (uint c = 0; c < p.channels; ++c) {
    device const T* a = x + c * p.plane;
    device const T* b = dy + c * p.plane;
    float s = 0.0f, d = 0.0f;
    MPSX_REDUCE(+ : s, d)
    for (ulong i = g.index; i < p.plane; i += g.count) {
      const float v = float(b[i]);
      s += v;
      d += v * (float(a[i]) - mean);
    }
    s = tg_sum(s, scratch, g);
    d = tg_sum(d, scratch, g) * rstd;
    if (p.wants_sums && g.index == 0) {
      image_sums[c] = s;
      image_dots[c] = d;
    }
    const float w = p.has_weight ? float(weight[first + c]) : 1.0f;
    sum += w * s;
    dot += w * d;
  }
  if (!p.wants_input) return;
  const float shift = rstd * sum / float(size), slope = rstd * rstd * dot / float(size);
  for (uint c = 0; c < p.channels; ++c) {
    const float scale = p.has_weight ? rstd * float(weight[first + c]) : rstd;
    device const T* a = x + c * p.plane;
    device const T* b = dy + c * p.plane;
    device T* to = dx + c * p.plane;
    MPSX_VECTORIZE
    for (ulong i = g.index; i < p.plane; i += g.count)
      to[i] = T(fma(float(b[i]), scale, -shift) - (float(a[i]) - mean) * slope);
  }
}

// Adds up the images, in order.
template <typename W>
kernel void group_norm_bwd_params(device W* grad_weight [[buffer(0)]], device W* grad_bias [[buffer(1)]],
                                  device const float* sums [[buffer(2)]], constant GroupNormParams& p [[buffer(3)]],
                                  uint c [[thread_position_in_grid]]) {
  const ulong channels = ulong(p.groups) * p.channels;
  device const float* dots = sums + p.images * channels;
  float bias = 0.0f, weight = 0.0f;
  for (uint n = 0; n < p.images; ++n) {
    bias += sums[n * channels + c];
    weight += dots[n * channels + c];
  }
  grad_weight[c] = W(weight);
  grad_bias[c] = W(bias);
}

#define GROUP_NORM(T, W, TAGS)                       \
  MPSX_KERNEL("group_norm_" #TAGS, group_norm<T, W>) \
  MPSX_KERNEL("group_norm_bwd_" #TAGS, group_norm_bwd<T, W>)
GROUP_NORM(float, float, f32_f32)
GROUP_NORM(half, half, f16_f16)
GROUP_NORM(half, float, f16_f32)
GROUP_NORM(bfloat, bfloat, bf16_bf16)
GROUP_NORM(bfloat, float, bf16_f32)
#define GROUP_NORM_PARAMS(W, TAG, ...) MPSX_KERNEL("group_norm_bwd_params_" #TAG, group_norm_bwd_params<W>)
MPSX_FOR_FLOAT(GROUP_NORM_PARAMS, )
