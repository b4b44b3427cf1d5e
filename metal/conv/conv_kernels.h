// The GEMM kernels of convolution. Shape selects the tile and the tier: simdgroup_matrix (lib/gemm.h) or matmul2d
// (lib/tensor_fragments.h).
#pragma once

#include "conv/im2col.h"
#include "lib/instantiate.h"

// CHANNELS_LAST: transpose the GEMM, so that stores to a channels-last output coalesce.
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

// `batch` is the index of a group or, if each image has its own GEMM, of a (group, image) pair.
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

// Computes the output of a convolution, or the input gradient of a convolution with stride 1.
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

// A 1x1 convolution with stride 1. Each image has its own GEMM, where N is the number of positions per image.
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

// Stores the weight gradient, or a K split's partial sums for conv_weight_split_k_reduce.
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

// Computes the weight gradient: output gradient x im2col(source)^T, where K covers the positions of all images.
// POINTWISE: the convolution is 1x1 with stride 1, so positions are contiguous.
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

#define MPSX_CONV_TILED(NAME, T, TAG, TILE)                                                      \
  MPSX_KERNEL("conv" NAME "_" #TAG, conv<T, TILE<T>, false>)                                     \
  MPSX_KERNEL("conv_channels_last" NAME "_" #TAG, conv<T, TILE<T>, true>)                        \
  MPSX_KERNEL("conv_pointwise" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, false>)              \
  MPSX_KERNEL("conv_pointwise_channels_last" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, true>) \
  MPSX_KERNEL("conv_col" NAME "_" #TAG, conv_pointwise<T, float, TILE<T>, false>)                \
  MPSX_KERNEL("conv_weight" NAME "_" #TAG, conv_weight<T, TILE<T>, false>)                       \
  MPSX_KERNEL("conv_weight_pointwise" NAME "_" #TAG, conv_weight<T, TILE<T>, true>)
