// Convolutions of few channels in a group, where a tile of a matrix product would be nearly empty.
#include "conv/patches.h"
#include "lib/instantiate.h"

enum : uint { kLine = 256 };  // places of a line that a threadgroup owns

// The first place of this thread's, from `low` on.
inline uint own_from(uint low, GroupThread g) {
  return low <= g.index ? g.index : g.index + (low - g.index + g.count - 1) / g.count * g.count;
}

// Part of a line of one channel of the result (or BACKWARD of the input's gradient), tap by tap.
template <typename T, bool BACKWARD>
kernel void conv_depthwise(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kLine];
  const ConvWindow w = p.window;
  const uint blocks = (w.positions[2] + kLine - 1) / kLine, start = g.group.x % blocks * kLine;
  const uint place = g.group.x / blocks * w.positions[2] + start, count = min(uint(kLine), w.positions[2] - start);
  const ConvPlace first = place_of(place, w);
  const uint channel = g.group.y, group = channel / p.rows, row = channel % p.rows;
  device const T* factors = weight + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  device const T* image = source + (long(first.image) * p.image_stride + long(group) * p.channels * p.channel_stride);
  const float begin = p.has_bias ? float(bias[channel]) : 0.0f;
  for (uint i = g.index; i < count; i += g.count) sum[i] = begin;
  for (uint k = 0; k < p.depth; ++k) {
    const ConvTap tap = tap_of(k, w);
    const int z = source_index<BACKWARD>(first.at[0], tap.at[0], 0, w);
    const int y = source_index<BACKWARD>(first.at[1], tap.at[1], 1, w);
    if (z < 0 || y < 0) continue;
    const float factor = float(factors[long(k / p.matrix.inner) * p.matrix.outer_stride + k % p.matrix.inner]);
    device const T* line = image + (long(tap.channel) * p.channel_stride + long(z) * p.source_stride[0] +
                                    long(y) * p.source_stride[1]);
    if (BACKWARD && w.stride[2] != 1) {
      for (uint i = g.index; i < count; i += g.count) {
        const int x = source_index<BACKWARD>(first.at[2] + i, tap.at[2], 2, w);
        sum[i] += x >= 0 ? factor * float(line[long(x) * p.source_stride[2]]) : 0.0f;
      }
      continue;
    }
    const ConvRange r = range_of<BACKWARD>(first.at[2], count, tap.at[2], w);
    device const T* x = line + long(r.start) * p.source_stride[2];
    const long apart = r.by * p.source_stride[2];
    if (apart == 1) {
      MPSX_VECTORIZE
      for (uint i = own_from(r.low, g); i < r.high; i += g.count) sum[i] += factor * float(x[i]);
    } else {
      for (uint i = own_from(r.low, g); i < r.high; i += g.count) sum[i] += factor * float(x[long(i) * apart]);
    }
  }
  device T* target = out + (long(first.image) * p.out_image + long(channel) * p.out_channel +
                            long(place % (w.positions[0] * w.positions[1] * w.positions[2])));
  for (uint i = g.index; i < count; i += g.count) target[i] = T(sum[i]);
}

// One element of the weight's gradient a threadgroup.
template <typename T>
kernel void conv_depthwise_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                  device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ConvWindow w = p.window;
  const uint channel = g.group.y, group = channel / p.rows, row = channel % p.rows;
  const ConvTap tap = tap_of(g.group.x, w);
  device const T* image = source + (long(group) * p.channels + tap.channel) * p.channel_stride;
  device const T* gradient = grad + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  const uint lines = p.depth / w.positions[2], width = w.positions[2];
  float sum = 0.0f;
  for (uint line = 0; line < lines; ++line) {
    const ConvPlace place = place_of(line * width, w);
    const int z = source_index<false>(place.at[0], tap.at[0], 0, w);
    const int y = source_index<false>(place.at[1], tap.at[1], 1, w);
    if (z < 0 || y < 0) continue;
    device const T* x = image + (long(place.image) * p.image_stride + long(z) * p.source_stride[0] +
                                 long(y) * p.source_stride[1]);
    const uint column = line * width;
    device const T* dy = gradient + (long(column / p.matrix.inner) * p.matrix.outer_stride + column % p.matrix.inner);
    float part = 0.0f;
    const ConvRange r = range_of<false>(0, width, tap.at[2], w);
    device const T* from = x + long(r.start) * p.source_stride[2];
    const long apart = r.by * p.source_stride[2];
    MPSX_REDUCE(+ : part)
    for (uint i = r.low + g.index; i < r.high; i += g.count) part += float(dy[i]) * float(from[long(i) * apart]);
    sum += part;
  }
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) out[ulong(channel) * p.columns + g.group.x] = T(sum);
}

#define MPSX_DEPTHWISE(T, TAG, ...)                                   \
  MPSX_KERNEL("conv_depthwise_" #TAG, conv_depthwise<T, false>)       \
  MPSX_KERNEL("conv_depthwise_backward_" #TAG, conv_depthwise<T, true>) \
  MPSX_KERNEL("conv_depthwise_weight_" #TAG, conv_depthwise_weight<T>)
MPSX_FOR_FLOAT(MPSX_DEPTHWISE)
