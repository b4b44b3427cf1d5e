// Direct convolution for groups with few channels, which would leave GEMM tiles nearly empty.
#include "conv/im2col.h"
#include "lib/instantiate.h"

enum : uint { kRowBlock = 256 };  // output positions per threadgroup

// Returns the first position at or after `low` that this thread computes.
inline uint first_from(uint low, GroupThread g) {
  return low <= g.index ? g.index : g.index + (low - g.index + g.count - 1) / g.count * g.count;
}

// Computes a block of positions in one output row of a channel, tap by tap. BACKWARD: computes the input gradient
// instead.
template <typename T, bool BACKWARD>
kernel void conv_depthwise(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kRowBlock];
  const ConvWindow w = p.window;
  const uint blocks = (w.positions[2] + kRowBlock - 1) / kRowBlock, start = g.group.x % blocks * kRowBlock;
  const uint position = g.group.x / blocks * w.positions[2] + start,
             count = min(uint(kRowBlock), w.positions[2] - start);
  const ConvPosition first = position_of(position, w);
  const uint channel = g.group.y, group = channel / p.M, row = channel % p.M;
  device const T* weights = weight + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  device const T* image = source + (long(first.image) * p.image_stride + long(group) * p.channels * p.channel_stride);
  const float begin = p.has_bias ? float(bias[channel]) : 0.0f;
  for (uint i = g.index; i < count; i += g.count) sum[i] = begin;
  for (uint k = 0; k < p.K; ++k) {
    const ConvTap tap = tap_of(k, w);
    const int z = source_index<BACKWARD>(first.index[0], tap.index[0], 0, w);
    const int y = source_index<BACKWARD>(first.index[1], tap.index[1], 1, w);
    if (z < 0 || y < 0) continue;
    const float tap_weight = float(weights[long(k / p.matrix.inner) * p.matrix.outer_stride + k % p.matrix.inner]);
    device const T* row_data =
        image + (long(tap.channel) * p.channel_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
    if (BACKWARD && w.stride[2] != 1) {
      for (uint i = g.index; i < count; i += g.count) {
        const int x = source_index<BACKWARD>(first.index[2] + i, tap.index[2], 2, w);
        sum[i] += x >= 0 ? tap_weight * float(row_data[long(x) * p.source_stride[2]]) : 0.0f;
      }
      continue;
    }
    const ConvRange r = range_of<BACKWARD>(first.index[2], count, tap.index[2], w);
    device const T* x = row_data + long(r.start) * p.source_stride[2];
    const long step = r.step * p.source_stride[2];
    if (step == 1) {
      MPSX_VECTORIZE
      for (uint i = first_from(r.low, g); i < r.high; i += g.count) sum[i] += tap_weight * float(x[i]);
    } else {
      for (uint i = first_from(r.low, g); i < r.high; i += g.count) sum[i] += tap_weight * float(x[long(i) * step]);
    }
  }
  device T* target = out + (long(first.image) * p.out_image + long(channel) * p.out_channel +
                            long(position % (w.positions[0] * w.positions[1] * w.positions[2])));
  for (uint i = g.index; i < count; i += g.count) target[i] = T(sum[i]);
}

// Computes one element of the weight gradient per threadgroup.
template <typename T>
kernel void conv_depthwise_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                  device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ConvWindow w = p.window;
  const uint channel = g.group.y, group = channel / p.M, row = channel % p.M;
  const ConvTap tap = tap_of(g.group.x, w);
  device const T* image = source + (long(group) * p.channels + tap.channel) * p.channel_stride;
  device const T* gradient = grad + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  const uint rows = p.K / w.positions[2], width = w.positions[2];
  float sum = 0.0f;
  for (uint i = 0; i < rows; ++i) {
    const ConvPosition position = position_of(i * width, w);
    const int z = source_index<false>(position.index[0], tap.index[0], 0, w);
    const int y = source_index<false>(position.index[1], tap.index[1], 1, w);
    if (z < 0 || y < 0) continue;
    device const T* x =
        image + (long(position.image) * p.image_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
    const uint column = i * width;
    device const T* dy = gradient + (long(column / p.matrix.inner) * p.matrix.outer_stride + column % p.matrix.inner);
    float partial = 0.0f;
    const ConvRange r = range_of<false>(0, width, tap.index[2], w);
    device const T* from = x + long(r.start) * p.source_stride[2];
    const long step = r.step * p.source_stride[2];
    MPSX_REDUCE(+ : partial)
    for (uint j = r.low + g.index; j < r.high; j += g.count) partial += float(dy[j]) * float(from[long(j) * step]);
    sum += partial;
  }
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) out[ulong(channel) * p.N + g.group.x] = T(sum);
}

#define MPSX_DEPTHWISE(T, TAG, ...)                                   \
  MPSX_KERNEL("conv_depthwise_" #TAG, conv_depthwise<T, false>)       \
  MPSX_KERNEL("conv_depthwise_backward_" #TAG, conv_depthwise<T, true>) \
  MPSX_KERNEL("conv_depthwise_weight_" #TAG, conv_depthwise_weight<T>)
MPSX_FOR_FLOAT(MPSX_DEPTHWISE)
