// Launches the implicit GEMMs of metal/conv/conv.metal and conv_tensor.metal.
#pragma once

#include <ATen/ops/empty.h>

#include "conv/params.h"
#include "ops/conv/layout.h"
#include "ops/gemm.h"

namespace mpsx::ops {

inline void set_source(ConvParams& p, const Tensor& source) {
  p.image_stride = source.stride(0);
  p.channel_stride = source.stride(1);
  for (int64_t d = 0, missing = 5 - source.dim(); d < 3; ++d)
    p.source_stride[d] = d >= missing ? source.stride(2 + d - missing) : 0;
  p.images = uint32_t(source.size(0));
}
inline void set_positions(ConvParams& p) {
  for (int d = 0; d < 3; ++d) p.by[d] = make_fast_divmod(p.window.positions[d]);
  p.image_positions = volume(p.window.positions);
  p.by_image = make_fast_divmod(p.image_positions);
}

// Returns whether the kernel is 1x1 with stride 1 and the positions are evenly strided.
inline bool is_pointwise(const ConvParams& p) {
  bool pointwise = true;
  int64_t stride = p.source_stride[2];
  for (int d = 2; d >= 0; --d) {
    const ConvWindow& w = p.window;
    pointwise = pointwise && w.taps[d] == 1 && w.stride[d] == 1 && w.padding[d] == 0 && w.source[d] == w.positions[d] &&
                (w.source[d] == 1 || p.source_stride[d] == stride);
    stride *= w.source[d];
  }
  return pointwise;
}

// For each group, multiplies the weight, of shape [groups, M, taps, channels], by im2col(source) in an implicit GEMM.
inline void launch_implicit_gemm(const Tensor& out, const Tensor& source_given, const Tensor& weight_given,
                                 const Tensor& bias, ConvParams p, uint32_t groups, bool backward) {
  const size_t size = out.element_size();
  ConvWindow& w = p.window;
  // If the stride is 1, the backward pass is a forward convolution with reversed taps.
  for (int d = 0; backward && d < 3; ++d) w.padding[d] = -w.padding[d], w.dilation[d] = -w.dilation[d];
  const bool pointwise =
      is_pointwise(p) && p.channels * p.channel_stride * int64_t(size) % 16 == 0 &&
      is_vectorizable(source_given.const_data_ptr(), size, p.source_stride[2], p.channel_stride, p.image_stride);
  const Tensor source = pointwise ? source_given : to_channels_last(source_given, groups);
  set_source(p, source);
  p.padded_channels = pointwise ? p.channels : uint32_t(source.size(1) / groups);
  const Tensor weight = pad_channels(weight_given, p.padded_channels);
  p.K = uint32_t(weight.size(2)) * p.padded_channels;
  p.matrix = {p.K, 0, int64_t(p.M) * p.K, 0};
  p.vectorize_matrix = is_vectorizable(weight.const_data_ptr(), size, p.K, 1);
  p.vec_elements = uint32_t(16 / size);
  if (pointwise) p.N /= p.images;
  p.gemms_per_group = pointwise ? p.images : 1;
  const uint64_t batch = uint64_t(groups) * p.gemms_per_group;
  const bool channels_last = out.stride(1) == 1;  // if so, compute the transposed GEMM
  const uint64_t M = channels_last ? p.N : p.M, N = channels_last ? p.M : p.N;
  const bool tile128 = conv_prefers_tile128(out, M, N, batch);
  const SplitK split = tile128 ? SplitK{1, p.K} : choose_split_k(gemm_threads(M, N, batch), p.K);
  p.split_k = split.splits;
  p.k_per_split = split.k_per_split;
  static const TiledKernels kernels[2][2] = {
      // Indexed by [pointwise][channels_last].
      {TiledKernels("conv"), TiledKernels("conv_channels_last")},
      {TiledKernels("conv_pointwise"), TiledKernels("conv_pointwise_channels_last")}};
  const auto bias_data = [&] { return p.has_bias ? bias.const_data_ptr() : nullptr; };
  const Tensor partials = p.split_k > 1 ? at::empty({int64_t(batch) * p.split_k, int64_t(M), int64_t(N)},
                                                    out.options().dtype(at::kFloat).memory_format(std::nullopt))
                                        : Tensor();
  Launch l(kernels[pointwise][channels_last].get(out, tile128));
  l.outputs(out).inputs(source, weight).pointer(bias_data()).bytes(p).outputs(partials);
  Tensor taps;
  if (!pointwise) {
    static const KernelSet table("conv_taps");
    const uint32_t vectors = p.K / p.vec_elements;
    taps = at::empty({int64_t(vectors), int64_t(sizeof(ConvTapOffset))},
                     out.options().dtype(at::kByte).memory_format(std::nullopt));
    Launch first(table.get());
    first.outputs(taps).bytes(p).threads(vectors).run();
    l.inputs(taps);
  }
  set_gemm_grid(l, M, N, batch * p.split_k, p.k_per_split, tile128).run();
  if (p.split_k == 1) return;
  static const KernelSet reduce("conv_split_k_reduce"), reduce_channels_last("conv_split_k_reduce_channels_last");
  Launch last((channels_last ? reduce_channels_last : reduce).get(tag_of(out)));
  last.outputs(out).pointer(bias_data()).bytes(p).inputs(partials);
  last.threads(N, M, batch).work(p.split_k).run();
}

// Launches an implicit GEMM of the output gradient and im2col(source)^T, where K covers the positions of all images.
inline void launch_weight_gemm(const Tensor& out, const Tensor& source_given, const Tensor& grad_given, ConvParams p,
                               uint32_t groups) {
  const size_t size = out.element_size();
  const uint32_t positions = volume(p.window.positions);
  const bool pointwise = is_pointwise(p) && p.source_stride[2] == 1 && grad_given.is_contiguous() &&
                         is_vectorizable(source_given.const_data_ptr(), size, p.channel_stride, 1, p.image_stride) &&
                         is_vectorizable(grad_given.const_data_ptr(), size, positions, 1);
  const Tensor source = pointwise ? source_given : to_channels_last(source_given, groups);
  const Tensor grad = pointwise ? grad_given : to_channels_last(grad_given, groups);
  set_source(p, source);
  p.padded_channels = pointwise ? p.channels : uint32_t(source.size(1) / groups);
  if (pointwise) {
    for (int d = 0; d < 3; ++d) p.window.positions[d] = d == 2 ? positions : 1;
    p.matrix = {positions, grad.size(1) * positions, int64_t(p.M) * positions, 0};
  } else {
    p.matrix = {1, grad.size(1), grad.size(1) / groups, 0};
  }
  set_positions(p);
  p.N = p.padded_channels * volume(p.window.taps);
  const bool tile128 = conv_prefers_tile128(out, p.M, p.N, groups * 8);  // assume that K will be split
  const uint32_t tile = tile128 ? kTile128 : kTile64, threads = tile128 ? kTile128Threads : kTile64Threads;
  const SplitK split = choose_split_k(tile_count(p.M, p.N, groups, tile, tile) * threads, p.K);
  p.split_k = split.splits;
  p.k_per_split = split.k_per_split;
  static const TiledKernels im2col("conv_weight"), pointwise_kernels("conv_weight_pointwise");
  Launch l((pointwise ? pointwise_kernels : im2col).get(out, tile128));
  l.outputs(out).inputs(source, grad).bytes(p);
  const int64_t elements = out.numel() / groups;
  const Tensor partials = p.split_k > 1 ? at::empty({groups * p.split_k, elements},
                                                    out.options().dtype(at::kFloat).memory_format(std::nullopt))
                                        : Tensor();
  l.pointer(p.split_k > 1 ? partials.mutable_data_ptr() : nullptr);
  set_gemm_grid(l, p.M, p.N, uint64_t(groups) * p.split_k, p.k_per_split, tile128).run();
  if (p.split_k > 1) {
    static const KernelSet reduce("conv_weight_split_k_reduce");
    Launch last(reduce.get(tag_of(out)));
    last.outputs(out).inputs(partials).bytes(p);
    last.threads(uint64_t(elements), groups).work(p.split_k).run();
  }
}

}  // namespace mpsx::ops
