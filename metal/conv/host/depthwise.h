// Depthwise convolution on the host driver: a thread computes a block of positions in one output row of a channel, tap
// by tap, in vectorized loops. Grid: (rows x blocks of a row, channels)
#pragma once

enum : uint { kRowBlock = 256 };  // output positions per thread

template <typename T, bool BACKWARD>
kernel void conv_depthwise(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  float sum[kRowBlock];
  const ConvWindow w = p.window;
  const uint blocks = (w.positions[2] + kRowBlock - 1) / kRowBlock, start = gid.x % blocks * kRowBlock;
  const uint position = gid.x / blocks * w.positions[2] + start, count = min(uint(kRowBlock), w.positions[2] - start);
  const ConvPosition first = position_of(position, w);
  const uint channel = gid.y, group = channel / p.M, row = channel % p.M;
  device const T* weights = weight + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  device const T* image = source + (long(first.image) * p.image_stride + long(group) * p.channels * p.channel_stride);
  const float begin = p.has_bias ? float(bias[channel]) : 0.0f;
  for (uint i = 0; i < count; ++i) sum[i] = begin;
  for (uint k = 0; k < p.K; ++k) {
    const ConvTap tap = tap_of(k, w);
    const int z = source_index<BACKWARD>(first.index[0], tap.index[0], 0, w);
    const int y = source_index<BACKWARD>(first.index[1], tap.index[1], 1, w);
    if (z < 0 || y < 0) continue;
    const float tap_weight = float(weights[long(k / p.matrix.inner) * p.matrix.outer_stride + k % p.matrix.inner]);
    device const T* row_data =
        image + (long(tap.channel) * p.channel_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
    if (BACKWARD && w.stride[2] != 1) {
      for (uint i = 0; i < count; ++i) {
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
      for (uint i = r.low; i < r.high; ++i) sum[i] += tap_weight * float(x[i]);
    } else {
      for (uint i = r.low; i < r.high; ++i) sum[i] += tap_weight * float(x[long(i) * step]);
    }
  }
  device T* target = out + (long(first.image) * p.out_image + long(channel) * p.out_channel +
                            long(position % (w.positions[0] * w.positions[1] * w.positions[2])));
  for (uint i = 0; i < count; ++i) target[i] = T(sum[i]);
}
