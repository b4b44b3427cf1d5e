// Convolution as implicit GEMM: the weight matrix times im2col(source).
#include "conv/conv_kernels.h"

// Fills the table of tap offsets that Im2colLoader reads.
kernel void conv_taps(device ConvTapOffset* out [[buffer(0)]], constant ConvParams& p [[buffer(1)]],
                      uint gid [[thread_position_in_grid]]) {
  const ConvWindow w = p.window;
  const uint k = gid * p.vec_elements;
  const ConvTap tap = tap_of(k / p.padded_channels, w);
  ConvTapOffset to = {long(k % p.padded_channels), {0, 0, 0}, 0};
  for (uint d = 0; d < 3; ++d) {
    to.index[d] = int(tap.index[d]) * w.dilation[d];
    to.offset += long(to.index[d]) * p.source_stride[d];
  }
  out[gid] = to;
}

// Sums the partial results of the K splits. gid = (column, row, batch).
template <typename T, bool CHANNELS_LAST>
kernel void conv_split_k_reduce(device T* out [[buffer(0)]], device const T* bias [[buffer(1)]],
                                constant ConvParams& p [[buffer(2)]], device float* partials [[buffer(3)]],
                                uint3 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.M) * p.N;
  device const float* partial =
      partials + (gid.z * p.split_k * size + ulong(gid.y) * (CHANNELS_LAST ? p.M : p.N) + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.split_k; ++i) sum += partial[i * size];
  conv_epilogue<CHANNELS_LAST>(out, bias, partials, p, gid.z).store_output(gid.y, gid.x, sum);
}

// The range of windows, `first` to `last`, that cover an element along one dimension. `top` is the element's index in
// the padded input.
struct ConvWindows {
  int top, first, last;
};
inline ConvWindows windows_covering(uint index, uint d, constant ConvWindow& w) {
  const int top = int(index) + w.padding[d], below = top - (int(w.taps[d]) - 1) * w.dilation[d];
  return {top, below > 0 ? (below + w.stride[d] - 1) / w.stride[d] : 0, min(top / w.stride[d], int(w.source[d]) - 1)};
}
// Returns which tap of the window covers the element, or -1 if the element is between the taps of a dilated window.
inline int tap_at(ConvWindows c, int window, uint d, constant ConvWindow& w) {
  const int distance = c.top - window * w.stride[d];
  if (w.dilation[d] == 1) return distance;
  const int tap = distance / w.dilation[d];
  return tap * w.dilation[d] == distance ? tap : -1;
}

// Computes the input gradient, or the output of a transposed convolution. Each element sums the contributions of all
// windows that cover it. `columns` has the layout (image, channel, tap, window). gid = (position, channel).
template <typename T>
kernel void col2im(device T* out [[buffer(0)]], device const float* columns [[buffer(1)]],
                   device const T* bias [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                   uint2 gid [[thread_position_in_grid]]) {
  constant ConvWindow& w = p.window;
  const ConvPosition position = position_of(gid.x, p);
  const ConvWindows z = windows_covering(position.index[0], 0, w), y = windows_covering(position.index[1], 1, w);
  const ConvWindows x = windows_covering(position.index[2], 2, w);
  const ulong plane = ulong(position.image) * p.M + gid.y, taps = w.taps[0] * w.taps[1] * w.taps[2];
  device const float* from = columns + plane * taps * p.K;
  float sum = p.has_bias ? float(bias[gid.y]) : 0.0f;
  for (int a = z.first; a <= z.last; ++a) {
    const int tap_z = tap_at(z, a, 0, w);
    for (int b = y.first; b <= y.last && tap_z >= 0; ++b) {
      const int tap_y = tap_at(y, b, 1, w);
      if (tap_y < 0) continue;
      const uint taps_before = (uint(tap_z) * w.taps[1] + uint(tap_y)) * w.taps[2];
      const uint windows = (uint(a) * w.source[1] + uint(b)) * w.source[2];
      for (int c = x.first; c <= x.last; ++c) {
        const int tap_x = tap_at(x, c, 2, w);
        if (tap_x >= 0) sum += from[ulong(taps_before + uint(tap_x)) * p.K + windows + uint(c)];
      }
    }
  }
  const uint inside = gid.x - position.image * p.image_positions;
  out[long(position.image) * p.out_image + long(gid.y) * p.out_channel + long(inside)] = T(sum);
}

// Sums the partial weight gradients of the K splits. gid = (element, group).
template <typename T>
kernel void conv_weight_split_k_reduce(device T* out [[buffer(0)]], device const float* partials [[buffer(1)]],
                                       constant ConvParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.M) * p.channels * (p.N / p.padded_channels);
  device const float* partial = partials + (ulong(gid.y) * p.split_k * size + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.split_k; ++i) sum += partial[i * size];
  out[ulong(gid.y) * size + gid.x] = T(sum);
}

#define MPSX_CONV(T, TAG, ...)                                                         \
  MPSX_CONV_TILED("", T, TAG, Tile64)                                                  \
  MPSX_KERNEL("conv_split_k_reduce_" #TAG, conv_split_k_reduce<T, false>)              \
  MPSX_KERNEL("conv_split_k_reduce_channels_last_" #TAG, conv_split_k_reduce<T, true>) \
  MPSX_KERNEL("col2im_" #TAG, col2im<T>)                                               \
  MPSX_KERNEL("conv_weight_split_k_reduce_" #TAG, conv_weight_split_k_reduce<T>)
MPSX_FOR_FLOAT(MPSX_CONV)
MPSX_CONV_TILED("_128", half, f16, Tile128)
MPSX_CONV_TILED("_128", bfloat, bf16, Tile128)
