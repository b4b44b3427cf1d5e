// Depthwise convolution on the host driver: a thread computes part of an output row, tap by tap, in vectorized loops.
// Grid, in threads: (channels x planes x rows x blocks of kRowOutputs columns, images)
#pragma once

enum : uint { kRowOutputs = 256 };  // outputs per thread

// The range [low, high) of output positions, relative to `first`, whose source index is in range. Position i reads
// source index start + i * step. Supports forward windows of any stride and backward windows of stride 1.
struct ConvRange {
  int start, step;
  uint low, high;
};
template <bool BACKWARD>
inline ConvRange range_of(uint first, uint count, uint tap, thread const ConvWindow& w) {
  const int step = w.stride[2], shift = int(tap) * w.dilation[2], size = int(w.source[2]);
  const int start = BACKWARD ? int(first) + w.padding[2] - shift : int(first) * step - w.padding[2] + shift;
  const uint low = start < 0 ? min(count, uint((step - 1 - start) / step)) : 0;
  const uint high = start < size ? min(count, uint((size - 1 - start) / step + 1)) : 0;
  return {start, step, low, max(low, high)};
}

template <typename T, bool BACKWARD>
kernel void conv_depthwise(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  float sum[kRowOutputs];
  const ConvWindow w = p.window;
  const uint rows = divide(gid.x, p.by[2]), planes = divide(rows, p.by[1]), channel = divide(planes, p.by[0]);
  const uint plane = planes - channel * w.positions[0], output_row = rows - planes * w.positions[1];
  const uint start = gid.x % ((w.positions[2] + kRowOutputs - 1) / kRowOutputs) * kRowOutputs;
  const uint count = min(uint(kRowOutputs), w.positions[2] - start);
  const uint group = channel / p.M, row = channel % p.M;
  device const T* weights = weight + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  device const T* image = source + (long(gid.y) * p.image_stride + long(group) * p.channels * p.channel_stride);
  const float begin = p.has_bias ? float(bias[channel]) : 0.0f;
  for (uint i = 0; i < count; ++i) sum[i] = begin;
  for (uint k = 0; k < p.K; ++k) {
    const ConvTap tap = tap_of(k, w);
    const int z = source_index<BACKWARD>(plane, tap.index[0], 0, w);
    const int y = source_index<BACKWARD>(output_row, tap.index[1], 1, w);
    if (z < 0 || y < 0) continue;
    const float tap_weight = float(weights[long(k / p.matrix.inner) * p.matrix.outer_stride + k % p.matrix.inner]);
    device const T* row_data =
        image + (long(tap.channel) * p.channel_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
    if (BACKWARD && w.stride[2] != 1) {
      for (uint i = 0; i < count; ++i) {
        const int x = source_index<BACKWARD>(start + i, tap.index[2], 2, w);
        sum[i] += x >= 0 ? tap_weight * float(row_data[long(x) * p.source_stride[2]]) : 0.0f;
      }
      continue;
    }
    const ConvRange r = range_of<BACKWARD>(start, count, tap.index[2], w);
    device const T* x = row_data + long(r.start) * p.source_stride[2];
    const long step = r.step * p.source_stride[2];
    if (step == 1) {
      MPSX_VECTORIZE
      for (uint i = r.low; i < r.high; ++i) sum[i] += tap_weight * float(x[i]);
    } else {
      for (uint i = r.low; i < r.high; ++i) sum[i] += tap_weight * float(x[long(i) * step]);
    }
  }
  device T* target = out + (long(gid.y) * p.out_image + long(channel) * p.out_channel +
                            (long(plane) * w.positions[1] + output_row) * w.positions[2] + start);
  for (uint i = 0; i < count; ++i) target[i] = T(sum[i]);
}
