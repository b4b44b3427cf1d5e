// Strided transposed convolutions, computed with GEMM and col2im.
#pragma once

#include <algorithm>

#include "ops/conv/layout.h"

namespace mpsx::ops {

// Computes columns of shape [images, M * taps, positions] in float32 with a GEMM and then sums the overlapping windows
// (col2im).
inline void launch_col2im(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias,
                          ConvParams p, uint32_t groups) {
  static const TiledKernels gemm_kernels("conv_col");
  static const KernelSet col2im_kernels("col2im");
  constexpr int64_t kMaxColumns = int64_t(1) << 23;  // elements per batch of images; fits in a large cache
  const int64_t positions = volume(p.window.source), images = out.size(0);
  const int64_t rows = int64_t(p.M) * volume(p.window.taps), all_rows = groups * rows;
  const int64_t batch_images = std::clamp<int64_t>(kMaxColumns / (all_rows * positions), 1, images);
  const Tensor columns =
      at::empty({batch_images, all_rows, positions}, out.options().dtype(at::kFloat).memory_format(std::nullopt));
  const Tensor from = to_channels_last(source, groups);
  const int64_t padded_channels = from.size(1) / groups;
  const Tensor weights = pad_channels(weight.reshape({groups, p.channels, rows}).transpose(1, 2), padded_channels);
  ConvParams q{};
  q.M = uint32_t(rows);
  q.N = q.image_positions = uint32_t(positions);
  q.by_image = make_fast_divmod(q.N);
  q.channels = q.padded_channels = q.K = uint32_t(padded_channels);
  q.matrix = {padded_channels, 0, rows * padded_channels, 0};
  q.vectorize_matrix = 1;
  q.image_stride = from.stride(0);
  q.channel_stride = 1;
  q.source_stride[2] = groups * padded_channels;
  q.out_image = all_rows * positions;
  q.out_channel = positions;
  q.out_position = 1;
  q.split_k = 1;
  q.k_per_split = q.K;
  p.M *= groups;
  p.K = q.N;
  for (int64_t image = 0; image < images; image += batch_images) {
    const int64_t count = std::min(batch_images, images - image);
    const bool tile128 = conv_prefers_tile128(out, q.M, q.N, uint64_t(groups * count));
    q.images = q.gemms_per_group = uint32_t(count);
    Launch gemm(gemm_kernels.get(out, tile128));
    gemm.outputs(columns).inputs(from.narrow(0, image, count), weights).pointer(nullptr).bytes(q).pointer(nullptr);
    set_gemm_grid(gemm, q.M, q.N, uint64_t(groups * count), q.K, tile128).run();
    Launch last(col2im_kernels.get(tag_of(out)));
    last.outputs(out.narrow(0, image, count))
        .inputs(columns)
        .pointer(p.has_bias ? bias.const_data_ptr() : nullptr)
        .bytes(p);
    last.threads(uint64_t(count) * p.image_positions, p.M).work(volume(p.window.taps)).run();
  }
}

}  // namespace mpsx::ops
