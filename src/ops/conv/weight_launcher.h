// Launches the kernels of metal/conv/conv_weight_grad_tensor.metal and conv_weight_grad_pixels_tensor.metal.
#pragma once

#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/conv/plan.h"

namespace mpsx::ops {

// Adds up the partial sums of all splits and stores the gradient in `out`, of shape [O, C / groups, D, H, W], whose
// taps must be evenly strided. `partials` has the shape [splits, matrices * steps, M, N], with the sizes that `p` has
// for the GEMM.
inline void reduce_weight_gradient(const Tensor& out, const Tensor& partials, const Tensor& grad, const Tensor& source,
                                   ConvWeightGradParams p) {
  static const KernelSet scalars("conv_weight_grad_reduce_tensor"), vectors("conv_weight_grad_reduce4_tensor");
  constexpr uint32_t kMaxTaps = 63, kMinChannels = 32, kMinElements = 512, kMaxElements = 1536;  // per tile
  constexpr uint32_t kMinGroups = 1024, kMinSplits = 8, kMaxThreads = 512;
  p.taps = uint32_t(spatial_size(out));
  p.group_channels = uint32_t(out.size(1));
  p.out_stride = out.stride(0);
  p.channel_stride = out.stride(1);
  p.tap_stride = out.stride(4);
  p.tile_taps = std::min(p.taps, kMaxTaps);
  const uint32_t elements = std::clamp(uint32_t(out.numel() / kMinGroups), kMinElements, kMaxElements);
  const uint32_t width = (p.group_channels | p.channels) % 4 == 0 ? 4 : 1;
  p.channel_tiles = uint32_t(ceil_div(p.group_channels, std::max(kMinChannels, elements / p.tile_taps)));
  p.tile_channels = uint32_t(ceil_div(ceil_div(p.group_channels, p.channel_tiles), width) * width);
  p.channel_tiles = uint32_t(ceil_div(p.group_channels, p.tile_channels));
  const uint32_t sums = p.tile_channels * (p.tile_taps | 1), part_vectors = p.tile_channels / width * p.tile_taps;
  p.split_parts = std::max(std::min(p.splits / kMinSplits, kWeightTile / sums), 1u);
  p.splits_per_part = uint32_t(ceil_div(p.splits, p.split_parts));
  p.split_parts = uint32_t(ceil_div(p.splits, p.splits_per_part));
  p.by_row_taps = make_fast_divmod(p.row_taps);
  p.by_fold_taps = make_fast_divmod(p.fold_taps);
  p.by_tile_channels = make_fast_divmod(p.tile_channels);
  p.by_tile_taps = make_fast_divmod(p.tile_taps);
  p.by_vectors = make_fast_divmod(p.tile_channels / width);
  p.by_part_vectors = make_fast_divmod(part_vectors);
  Launch l((width == 4 ? vectors : scalars).get(tag_of(out)));
  l.outputs(out).inputs(partials, grad, source).bytes(p);
  const uint32_t work = part_vectors * p.split_parts;
  l.groups({p.channel_tiles * uint32_t(out.size(0)), uint32_t(ceil_div(p.taps, p.tile_taps))},
           uint32_t(ceil_div(ceil_div(work, ceil_div(work, kMaxThreads)), 32) * 32));
  l.work(uint64_t(p.tile_channels) * p.tile_taps * p.splits).run();
}

// Computes the partial sums of p.matrices * p.steps GEMMs, and adds them up.
inline void launch_weight_gemms(const Tensor& out, const Tensor& grad, const Tensor& source, ConvWeightGradParams& p) {
  static const std::deque<KernelSet> packed = kernels_by_tile("conv_weight_grad_tensor_", kConvWeightTiles),
                                     in_place = kernels_by_tile("conv_weight_grad_pixels_tensor_", kConvWeightTiles);
  const uint64_t gemms = uint64_t(p.matrices) * p.steps;
  const ConvWeightChoice choice = choose_weight_tile(p.M, p.N, gemms, p.windows, out.element_size());
  const ConvWeightTile& tile = kConvWeightTiles[choice.tile];
  p.splits = uint32_t(choice.splits);
  p.windows_per_split = uint32_t(choice.windows_per_split);
  const Tensor partials = at::empty({int64_t(p.splits * gemms), int64_t(p.M), int64_t(p.N)},
                                    out.options().dtype(at::kFloat).memory_format(std::nullopt));
  Launch l((p.in_place ? in_place : packed)[choice.tile].get(tag_of(grad)));
  l.outputs(partials).inputs(grad, source).bytes(p);
  l.groups({uint32_t(tile_count(p.M, p.N, gemms, tile.M, tile.N)), 1, p.splits}, tile.threads, true);
  l.work(uint64_t(tile.M) * tile.N * (1 + p.windows_per_split / 16)).run();
  reduce_weight_gradient(out, partials, grad, source, p);
}

// Computes a weight gradient from packed windows of the output gradient, and packed pixels of the input. `out` is [O,
// C / groups, D, H, W].
inline void launch_weight_gradient(const Tensor& out, const Tensor& grad, const Tensor& pixels,
                                   const PixelGrid& windows, const GroupedWeight& weight, const Plan& plan) {
  const PixelGrid& grid = plan.grid;
  const Steps& steps = plan.steps[0];
  const ConvAxes& axes = plan.axes[0];
  ConvWeightGradParams p{};
  p.grad_pitch = windows.padded_channels;
  p.grad_matrix = windows.pixels() * p.grad_pitch;
  p.source_pitch = grid.stride[2] * grid.padded_channels;
  p.source_matrix = grid.pixels() * grid.padded_channels;
  std::transform(steps.offsets.begin(), steps.offsets.end(), p.offsets, [](int64_t at) { return uint32_t(at); });
  p.M = uint32_t(weight.outputs());
  p.N = uint32_t(steps.K);
  p.windows = uint32_t(grid.windows(axes));
  p.steps = uint32_t(steps.offsets.size());
  p.matrices = uint32_t(weight.matrices);
  p.padded_channels = uint32_t(grid.padded_channels);
  p.channels = uint32_t(grid.channels);
  p.row_taps = uint32_t(steps.K / grid.padded_channels);
  p.fold_taps = uint32_t(grid.fold.taps);
  p.group_outputs = uint32_t(weight.group_outputs);
  p.images = uint32_t(grid.images);
  p.grid = grid.outputs();
  for (int d = 0; d < 3; ++d) {
    p.positions.size[d] = uint32_t(axes[d].positions);
    if (axes[d].positions != grid.pitch[d]) p.has_unused_windows = 1;
  }
  launch_weight_gemms(out, grad, pixels, p);
}

// Computes a weight gradient from channels-last tensors of shape [images, groups * channels, D, H, W].
inline void launch_weight_gradient_in_place(const Tensor& out, const Tensor& grad, const Tensor& source,
                                            const GroupedWeight& weight, const ConvAxes& axes,
                                            const BoxedOutputs& outputs) {
  const int64_t O = weight.outputs(), C = weight.channels(), columns = weight_pixel_columns(C, out.element_size());
  const PixelBoxes boxes = outputs.boxes(weight_box_pixels(out.element_size()));
  ConvWeightGradParams p{};
  p.in_place = 1;
  p.grad = pixels_of(grad, O);
  p.source = pixels_of(source, C);
  p.grad_matrix = O;
  p.source_matrix = C;
  set_boxes(p.boxes, boxes, outputs);
  size_t tap = 0;
  for (size_t a = 0; a < axes[0].taps.size(); ++a)
    for (size_t b = 0; b < axes[1].taps.size(); ++b)
      for (size_t c = 0; c < axes[2].taps.size(); ++c) set_first_pixel(p.boxes.first[tap++], axes, a, b, c);
  p.M = uint32_t(O);
  p.N = uint32_t(tap) * uint32_t(columns);
  p.windows = uint32_t(boxes.total * weight_box_pixels(out.element_size()));
  p.steps = p.fold_taps = 1;
  p.matrices = uint32_t(weight.matrices);
  p.padded_channels = uint32_t(columns);
  p.channels = uint32_t(C);
  p.row_taps = uint32_t(tap);
  p.group_outputs = uint32_t(weight.group_outputs);
  p.images = uint32_t(grad.size(0));
  for (int d = 0; d < 3; ++d) p.positions.size[d] = uint32_t(axes[size_t(d)].positions);
  p.has_unused_windows = out.element_size() == 4 || int64_t(p.windows) != grad.numel() / grad.size(1);
  launch_weight_gemms(out, grad, source, p);
}

}  // namespace mpsx::ops
