// Direct convolution for groups with few channels. Such groups would leave GEMM tiles nearly empty.
#include "conv/im2col.h"
#include "lib/instantiate.h"

enum : uint {
  kColumnOutputs = 4,  // outputs per thread of conv_depthwise
  kTapBlock = 4,       // taps of a row per threadgroup of conv_depthwise_weight
};

// Each thread computes kColumnOutputs adjacent outputs of one column in registers. BACKWARD: computes the input
// gradient instead. Grid, in threads: (channels x planes x blocks of rows x columns, images)
template <typename T, bool BACKWARD>
kernel void conv_depthwise(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  constant ConvWindow& w = p.window;
  const uint rows = divide(gid.x, p.by[2]), planes = divide(rows, p.by[1]), channel = divide(planes, p.by[0]);
  const uint column = gid.x - rows * w.positions[2], plane = planes - channel * w.positions[0];
  const uint first = (rows - planes * ((w.positions[1] + kColumnOutputs - 1) / kColumnOutputs)) * kColumnOutputs;
  const uint group = channel / p.M, row = channel % p.M;
  device const T* weights = weight + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  device const T* image = source + (long(gid.y) * p.image_stride + long(group) * p.channels * p.channel_stride);
  float sum[kColumnOutputs];
  MPSX_UNROLL
  for (uint j = 0; j < kColumnOutputs; ++j) sum[j] = p.has_bias ? float(bias[channel]) : 0.0f;
  for (uint c = 0; c < p.channels; ++c) {
    device const T* tap_weights = weights + long(c) * p.matrix.outer_stride;
    for (uint tz = 0; tz < w.taps[0]; ++tz) {
      const int z = source_index<BACKWARD>(plane, tz, 0, p);
      for (uint ty = 0; ty < w.taps[1]; ++ty, tap_weights += w.taps[2]) {
        if (z < 0) continue;
        device const T* from = image + (long(c) * p.channel_stride + long(z) * p.source_stride[0]);
        device const T* data[kColumnOutputs];
        bool inside[kColumnOutputs];
        MPSX_UNROLL
        for (uint j = 0; j < kColumnOutputs; ++j) {
          const int y = source_index<BACKWARD>(first + j, ty, 1, p);
          inside[j] = y >= 0;
          data[j] = from + long(max(y, 0)) * p.source_stride[1];
        }
        for (uint tx = 0; tx < w.taps[2]; ++tx) {
          const int x = source_index<BACKWARD>(column, tx, 2, p);
          if (x < 0) continue;
          const float tap_weight = float(tap_weights[tx]);
          const long offset = long(x) * p.source_stride[2];
          MPSX_UNROLL
          for (uint j = 0; j < kColumnOutputs; ++j)
            if (inside[j]) sum[j] += tap_weight * float(data[j][offset]);
        }
      }
    }
  }
  device T* target = out + (long(gid.y) * p.out_image + long(channel) * p.out_channel +
                            (long(plane) * w.positions[1] + first) * w.positions[2] + column);
  MPSX_UNROLL
  for (uint j = 0; j < kColumnOutputs; ++j)
    if (first + j < w.positions[1]) target[long(j) * w.positions[2]] = T(sum[j]);
}

// Computes the weight gradient of up to kTapBlock taps in a row per threadgroup. Each thread sums one column of the
// output gradient, or several if it is wider than the threadgroup.
template <typename T>
kernel void conv_depthwise_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                  device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ConvWindow w = p.window;
  const uint channel = g.group.y, group = channel / p.M, row = channel % p.M;
  const uint blocks = (w.taps[2] + kTapBlock - 1) / kTapBlock, tap_row = g.group.x / blocks;
  const uint first_tap = g.group.x % blocks * kTapBlock, count = min(uint(kTapBlock), w.taps[2] - first_tap);
  const ConvTap tap = tap_of(tap_row * w.taps[2], w);
  device const T* image = source + (long(group) * p.channels + tap.channel) * p.channel_stride;
  device const T* gradient = grad + (long(group) * p.matrix.group_stride + long(row) * p.matrix.row_stride);
  const uint width = w.positions[2], rows = p.K / width;
  const uint columns = min(g.count, width), rows_at_once = g.count / columns, first_row = g.index / columns;
  float sums[kTapBlock] = {};
  for (uint column = g.index % columns; column < width && first_row < rows_at_once; column += columns) {
    long offsets[kTapBlock];  // of the taps in a row of the source
    bool inside[kTapBlock];
    float partial[kTapBlock] = {};
    MPSX_UNROLL
    for (uint t = 0; t < kTapBlock; ++t) {
      const int x = source_index<false>(column, first_tap + t, 2, w);
      inside[t] = t < count && x >= 0;
      offsets[t] = inside[t] ? long(x) * p.source_stride[2] : 0;
    }
    for (uint i = first_row; i < rows; i += rows_at_once) {
      const ConvPosition position = position_of(i * width, p);
      const int z = source_index<false>(position.index[0], tap.index[0], 0, w);
      const int y = source_index<false>(position.index[1], tap.index[1], 1, w);
      if (z < 0 || y < 0) continue;
      device const T* x =
          image + (long(position.image) * p.image_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
      const uint in_image = i * width - position.image * p.matrix.inner + column;
      const float dy = float(gradient[long(position.image) * p.matrix.outer_stride + in_image]);
      MPSX_UNROLL
      for (uint t = 0; t < kTapBlock; ++t)
        if (inside[t]) partial[t] += dy * float(x[offsets[t]]);
    }
    MPSX_UNROLL
    for (uint t = 0; t < kTapBlock; ++t) sums[t] += partial[t];
  }
  MPSX_UNROLL
  for (uint t = 0; t < kTapBlock; ++t) {
    const float sum = tg_sum(sums[t], scratch, g);
    if (g.index == 0 && t < count) out[ulong(channel) * p.N + tap_row * w.taps[2] + first_tap + t] = T(sum);
  }
}

#define MPSX_DEPTHWISE(T, TAG, ...)                                     \
  MPSX_KERNEL("conv_depthwise_" #TAG, conv_depthwise<T, false>)         \
  MPSX_KERNEL("conv_depthwise_backward_" #TAG, conv_depthwise<T, true>) \
  MPSX_KERNEL("conv_depthwise_weight_" #TAG, conv_depthwise_weight<T>)
MPSX_FOR_FLOAT(MPSX_DEPTHWISE)
