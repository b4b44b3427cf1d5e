// Convolution as implicit GEMM: the weight matrix times im2col(source).
#include "conv/im2col.h"
#include "lib/instantiate.h"

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

// CHANNELS_LAST: transposes the GEMM to coalesce stores to a channels-last output.
template <typename T, typename O, bool CHANNELS_LAST>
struct ConvEpilogue {
  device O* out;
  device const T* bias;
  device float* partials;  // partial sums of one K split, reduced by conv_split_k_reduce
  constant ConvParams& p;

  METAL_FUNC void store(uint row, uint column, float acc) const {
    if (p.split_k > 1)
      partials[ulong(row) * (CHANNELS_LAST ? p.M : p.N) + column] = acc;
    else
      store_output(row, column, acc);
  }
  METAL_FUNC void store_output(uint row, uint column, float acc) const {
    const uint channel = CHANNELS_LAST ? column : row, position = CHANNELS_LAST ? row : column;
    const uint image = divide(position, p.by_image);
    const long offset = long(channel) * p.out_channel + long(position - image * p.image_positions) * p.out_position;
    out[long(image) * p.out_image + offset] = O(acc + (p.has_bias ? float(bias[channel]) : 0.0f));
  }
};

// `batch` indexes groups, or (group, image) pairs if each image has its own GEMM.
template <bool CHANNELS_LAST, typename T, typename O>
METAL_FUNC ConvEpilogue<T, O, CHANNELS_LAST> conv_epilogue(device O* out, device const T* bias, device float* partials,
                                                           constant ConvParams& p, uint batch) {
  const uint first = batch / p.gemms_per_group * p.M, image = batch % p.gemms_per_group;
  return {out + (long(image) * p.out_image + long(first) * p.out_channel), p.has_bias ? bias + first : bias, partials,
          p};
}

// Computes one output tile of a group's GEMM, over one K split.
template <typename Shape, bool CHANNELS_LAST, typename T, typename O, typename Operand>
METAL_FUNC void conv_gemm(device O* out, Operand source, device const T* weight, device const T* bias,
                          device float* partials, constant ConvParams& p, threadgroup uint4* memory, GroupThread g) {
  const uint batch = g.group.z / p.split_k, k_begin = g.group.z % p.split_k * p.k_per_split;
  const uint k_end = min(p.K, k_begin + p.k_per_split);
  const TileOffset tile = {g.group.y * Shape::BM, g.group.x * Shape::BN};
  const auto matrix = matrix_loader(weight + long(batch / p.gemms_per_group) * p.matrix.group_stride,
                                    p.matrix.row_stride, 1, p.M, p.K, p.vectorize_matrix);
  device float* split_partials = partials + (p.split_k > 1 ? ulong(g.group.z) * p.M * p.N : 0);
  const auto epilogue = conv_epilogue<CHANNELS_LAST>(out, bias, split_partials, p, batch);
  if (CHANNELS_LAST)
    gemm_tile<Shape>(source, matrix, k_begin, k_end, epilogue, p.N, p.M, tile, memory, g);
  else
    gemm_tile<Shape>(matrix, source, k_begin, k_end, epilogue, p.M, p.N, tile, memory, g);
}

// Computes the output, or for stride 1 the input gradient.
template <typename T, typename Shape, bool CHANNELS_LAST>
[[max_total_threads_per_threadgroup(Shape::max_threads)]]
kernel void conv(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                 device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                 constant ConvParams& p [[buffer(4)]], device float* partials [[buffer(5)]],
                 device const ConvTapOffset* taps [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const Im2colLoader<T> loader = {source + g.group.z / p.split_k * p.padded_channels, taps, p, p.N, p.K, true};
  conv_gemm<Shape, CHANNELS_LAST>(out, loader, weight, bias, partials, p, memory, g);
}

// Sums the partial results of the K splits. gid = (column, row, batch)
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

// Windows `first` to `last` cover an element along one dimension. `top` is the element's index in the padded input.
struct ConvWindows {
  int top, first, last;
};
inline ConvWindows windows_covering(uint index, uint d, constant ConvWindow& w) {
  const int top = int(index) + w.padding[d], below = top - (int(w.taps[d]) - 1) * w.dilation[d];
  return {top, below > 0 ? (below + w.stride[d] - 1) / w.stride[d] : 0,
          min(top / w.stride[d], int(w.source[d]) - 1)};
}
// Returns the tap that a window applies to the element, or -1 if the dilated window skips the element.
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

// 1x1 convolution with stride 1: one GEMM per image, where N is the number of positions per image.
template <typename T, typename O, typename Shape, bool CHANNELS_LAST>
[[max_total_threads_per_threadgroup(Shape::max_threads)]]
kernel void conv_pointwise(device O* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], device float* partials [[buffer(5)]],
                           MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint batch = g.group.z / p.split_k, group = batch / p.gemms_per_group, image = batch % p.gemms_per_group;
  const auto loader =
      matrix_loader(source + (long(image) * p.image_stride + long(group) * p.channels * p.channel_stride),
                    p.source_stride[2], p.channel_stride, p.N, p.K, true);
  conv_gemm<Shape, CHANNELS_LAST>(out, loader, weight, bias, partials, p, memory, g);
}

// Stores the weight gradient, or the partial sums of one K split for conv_weight_split_k_reduce.
template <typename T>
struct ConvWeightEpilogue {
  device T* out;
  device float* partials;
  constant ConvParams& p;

  METAL_FUNC void store(uint row, uint column, float acc) const {
    const uint tap = column / p.padded_channels, channel = column % p.padded_channels, taps = p.N / p.padded_channels;
    if (channel >= p.channels) return;
    const ulong i = (ulong(row) * p.channels + channel) * taps + tap;
    if (p.split_k > 1)
      partials[i] = acc;
    else
      out[i] = T(acc);
  }
};

// Weight gradient: output gradient x im2col(source)^T, where K runs over the positions of all images.
// POINTWISE: a 1x1 convolution with stride 1, whose positions are contiguous.
template <typename T, typename Shape, bool POINTWISE>
[[max_total_threads_per_threadgroup(Shape::max_threads)]]
kernel void conv_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                        device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                        device float* partials [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint group = g.group.z / p.split_k, split = g.group.z % p.split_k;
  const uint k_begin = split * p.k_per_split, k_end = min(p.K, k_begin + p.k_per_split);
  const TileOffset tile = {g.group.y * Shape::BM, g.group.x * Shape::BN};
  const ulong size = ulong(p.M) * p.channels * (p.N / p.padded_channels);
  const ConvWeightEpilogue<T> epilogue = {out + group * size, partials + (p.split_k > 1 ? g.group.z * size : 0), p};
  device const T* group_grad = grad + long(group) * p.matrix.group_stride;
  if (POINTWISE) {
    const uint positions = p.window.positions[2];
    const PointwiseLoader<T> a = {
        group_grad, p.matrix.row_stride, p.matrix.outer_stride, positions, p.by[2], p.M, k_end, true};
    const PointwiseLoader<T> b = {source + long(group) * p.channels * p.channel_stride,
                                  p.channel_stride,
                                  p.image_stride,
                                  positions,
                                  p.by[2],
                                  p.N,
                                  k_end,
                                  true};
    gemm_tile<Shape>(a, b, k_begin, k_end, epilogue, p.M, p.N, tile, memory, g);
  } else {
    const uint padded_rows = uint(p.matrix.group_stride);
    const MatrixLoader<T> a = {group_grad, 1, p.matrix.outer_stride, padded_rows, k_end, true, false};
    const Im2colTransposedLoader<T> b = {source + group * p.padded_channels, p, p.N, k_end, false};
    gemm_tile<Shape>(a, b, k_begin, k_end, epilogue, p.M, p.N, tile, memory, g);
  }
}

// gid = (element, group)
template <typename T>
kernel void conv_weight_split_k_reduce(device T* out [[buffer(0)]], device const float* partials [[buffer(1)]],
                                       constant ConvParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.M) * p.channels * (p.N / p.padded_channels);
  device const float* partial = partials + (ulong(gid.y) * p.split_k * size + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.split_k; ++i) sum += partial[i * size];
  out[ulong(gid.y) * size + gid.x] = T(sum);
}

#define MPSX_CONV_TILED(NAME, T, TAG, TILE)                                                      \
  MPSX_KERNEL("conv" NAME "_" #TAG, conv<T, TILE<T>, false>)                                     \
  MPSX_KERNEL("conv_channels_last" NAME "_" #TAG, conv<T, TILE<T>, true>)                        \
  MPSX_KERNEL("conv_pointwise" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, false>)              \
  MPSX_KERNEL("conv_pointwise_channels_last" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, true>) \
  MPSX_KERNEL("conv_col" NAME "_" #TAG, conv_pointwise<T, float, TILE<T>, false>)                \
  MPSX_KERNEL("conv_weight" NAME "_" #TAG, conv_weight<T, TILE<T>, false>)                       \
  MPSX_KERNEL("conv_weight_pointwise" NAME "_" #TAG, conv_weight<T, TILE<T>, true>)
#define MPSX_CONV(T, TAG, ...)                                                         \
  MPSX_CONV_TILED("", T, TAG, Tile64)                                                  \
  MPSX_KERNEL("conv_split_k_reduce_" #TAG, conv_split_k_reduce<T, false>)              \
  MPSX_KERNEL("conv_split_k_reduce_channels_last_" #TAG, conv_split_k_reduce<T, true>) \
  MPSX_KERNEL("col2im_" #TAG, col2im<T>)                                               \
  MPSX_KERNEL("conv_weight_split_k_reduce_" #TAG, conv_weight_split_k_reduce<T>)
MPSX_FOR_FLOAT(MPSX_CONV)
MPSX_CONV_TILED("_128", half, f16, Tile128)
MPSX_CONV_TILED("_128", bfloat, bf16, Tile128)
