// Launches the GEMMs of metal/conv/conv_gemm_tensor.metal and conv_pixels_tensor.metal.
#pragma once

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "ops/conv/plan.h"

namespace mpsx::ops {

// `grouped`: the matrices combine several groups.
inline void launch_conv_gemm(const ConvGemmParams& p, const ConvWork& work, const Tensor& out, const Tensor& left,
                             const Tensor& right, const Tensor& bias, const Tensor& partials, bool grouped = false) {
  static const KernelSet grouped_kernels("conv_gemm_tensor_grouped");
  static const std::deque<KernelSet> kernels = kernels_by_tile("conv_gemm_tensor_", kConvTiles);
  const Tensor& result = out.defined() ? out : partials;
  const size_t size = left.element_size();
  const size_t tile = grouped ? kGroupedConvTile : choose_conv_tile(work, size).tile;
  const ConvTile& t = kConvTiles[tile];
  const uint32_t steps = p.parts[0].steps;  // of the only part if they are split
  Launch l((grouped ? grouped_kernels : kernels[tile]).get(tag_of(left)));
  l.outputs(result).inputs(left, right, bias).bytes(p).outputs(partials);
  l.groups({uint32_t(tile_count(p.M, p.N, p.part_count, t.M, t.N)), 1, uint32_t(ceil_div(steps, p.steps_per_split))},
           t.threads(size), true);
  l.work(uint64_t(t.M) * t.N * (1 + uint64_t(p.parts[0].K) * std::min(steps, p.steps_per_split) / 16)).run();
}

// Launches conv_pixels_tensor.metal. Sets the boxes, whose sizes depend on the tile. `by_channel`: the weight's rows
// are channels of the source.
inline void launch_conv_pixels(ConvPixelParams& p, const ConvWork& work, const Tensor& out, const Tensor& source,
                               const Tensor& weight, const Tensor& bias, bool by_channel) {
  static const std::deque<KernelSet> by_output_kernels = kernels_by_tile("conv_pixels_tensor_", kConvTiles),
                                     by_channel_kernels = kernels_by_tile("conv_pixels_by_channel_tensor_", kConvTiles);
  const size_t size = source.element_size(), tile = choose_conv_tile(work, size).tile;
  const ConvTile& t = kConvTiles[tile];
  const PixelBoxes boxes = work.boxed->boxes(t.M);
  set_boxes(p.boxes, boxes, *work.boxed);
  p.gemm.M = uint32_t(boxes.total * t.M);
  Launch l((by_channel ? by_channel_kernels : by_output_kernels)[tile].get(tag_of(source)));
  l.outputs(out).inputs(source, weight, bias).bytes(p);
  l.groups({uint32_t(tile_count(p.gemm.M, p.gemm.N, p.gemm.part_count, t.M, t.N))}, t.threads(size), true);
  l.work(uint64_t(t.M) * t.N * (1 + uint64_t(p.gemm.parts[0].K) * p.gemm.parts[0].steps / 16)).run();
}

// Computes parts of a convolution, for one matrix of the weight each, in as few launches as the parameters allow.
class PartLauncher {
 public:
  PartLauncher(const Tensor& out, const Tensor& pixels, const Tensor& bias, const GroupedWeight& weight,
               const Plan& plan)
      : out_(out), pixels_(pixels), bias_(bias), weight_(weight), plan_(plan) {
    for (const ConvAxes& axes : plan.axes)
      if (!plan.in_place) rows_ = std::max(rows_, plan.grid.windows(axes));
  }

  void add(const ConvPart& part, size_t index, int64_t matrix) {
    const Steps& steps = plan_.steps[index];
    if (p_.part_count == kMaxConvParts || step_count_ + steps.offsets.size() > kMaxConvSteps) launch();
    const PixelGrid& grid = plan_.grid;
    ConvGemmPart& to = p_.parts[p_.part_count++];
    to.left = matrix * (plan_.in_place ? grid.channels : grid.pixels() * grid.padded_channels);
    to.right = weights_size_;
    to.out = part.out.storage_offset() - out_.storage_offset() + matrix * weight_.outputs() * out_.stride(1);
    to.right_pitch = steps.K;
    to.right_width = uint32_t(steps.K);
    to.right_row_step = uint32_t(weight_.outputs());
    to.right_rows = uint32_t(weight_.outputs() * int64_t(steps.offsets.size()));
    to.right_column_step = 0;
    to.first_step = uint32_t(step_count_);
    to.first_channel = uint32_t(matrix * weight_.outputs());
    to.steps = uint32_t(steps.offsets.size());
    to.K = uint32_t(steps.K);
    for (int d = 0; d < 3; ++d) {
      to.positions.size[d] = uint32_t(plan_.axes[index][d].positions);
      p_.output.stride[d] = uint32_t(part.out.stride(d + 2));
    }
    work_.add(double(to.steps), to.K, out_.element_size());
    add_steps(part, steps, plan_.axes[index], matrix);
    to.left_rows = uint32_t(rows_) + *std::max_element(p_.rows + to.first_step, p_.rows + step_count_);
  }

  void launch() {
    if (p_.part_count == 0) return;
    const PixelGrid& grid = plan_.grid;
    const bool by_channel = reads_weight_by_channel();
    const Tensor weights = by_channel || reads_weight_directly() ? weight_.weight : pack_weights();
    p_.left_pitch = grid.stride[2] * grid.padded_channels;
    p_.M = uint32_t(rows_);
    p_.N = uint32_t(weight_.outputs());
    p_.steps_per_split = kMaxConvSteps;
    p_.has_rows = 1;
    p_.has_bias = bias_.defined();
    p_.output.images = uint32_t(grid.images);
    p_.output.image_stride = uint32_t(out_.stride(0));
    p_.output.channel_stride = uint32_t(out_.stride(1));
    if (!plan_.in_place) p_.output.grid = grid.outputs();
    p_.group = {uint32_t(weight_.group_outputs), uint32_t(weight_.group_channels), uint32_t(weight_.channels()),
                uint32_t(grid.padded_channels), uint32_t(grid.fold.taps)};
    work_.M = p_.M;
    work_.N = p_.N;
    work_.boxed = plan_.boxed();
    if (plan_.in_place) {
      pixel_params_.source = pixels_of(pixels_, grid.channels);
      launch_conv_pixels(pixel_params_, work_, out_, pixels_, weights, bias_, by_channel);
    } else {
      launch_conv_gemm(p_, work_, out_, pixels_, weights, bias_, Tensor(), weight_.groups > 1);
    }
    p_.part_count = 0;
    step_count_ = weights_size_ = 0;
    work_ = {};
  }

 private:
  void add_steps(const ConvPart& part, const Steps& steps, const ConvAxes& axes, int64_t matrix) {
    const Tensor& w = weight_.weight;
    const auto tap_offset = [&](int d, size_t tap) {
      return (part.first[d] + int64_t(tap) * part.step[d]) * w.stride(d + 2);
    };
    size_t i = 0;
    for (size_t a = 0; a < axes[0].taps.size(); ++a)
      for (size_t b = 0; b < axes[1].taps.size(); ++b)
        for (size_t c = 0; c < (steps.whole_rows ? 1 : axes[2].taps.size()); ++c, ++i) {
          p_.rows[step_count_] = uint32_t(steps.offsets[i] / plan_.grid.stride[2]);
          set_first_pixel(pixel_params_.boxes.first[step_count_], axes, a, b, c);
          const int64_t from = tap_offset(0, a) + tap_offset(1, b) + tap_offset(2, c);
          steps_.steps[step_count_++] = {matrix * weight_.groups * weight_.group_stride + from, weights_size_,
                                         uint32_t(steps.K / plan_.grid.padded_channels), 0};
          weights_size_ += weight_.outputs() * steps.K;
        }
    steps_.tap_stride = part.step[2] * w.stride(4);
    steps_.fold_stride = part.step[1] * w.stride(3);
  }

  // Lets the parts read the weight itself if its channels and the taps of each row are contiguous: a 1x1 kernel, or a
  // channels-last weight. Otherwise, returns false. Steps of such a weight are columns of the same matrix, so that they
  // must consist of whole tiles.
  bool reads_weight_directly() {
    const GroupedWeight& w = weight_;
    const int64_t padded = plan_.grid.padded_channels;
    if (plan_.grid.fold.taps > 1 || w.groups > 1 || w.channels() != padded || w.channel_stride != 1) return false;
    std::array<int64_t, kMaxConvParts> spacing{};
    for (uint32_t i = 0; i < p_.part_count; ++i) {
      const ConvGemmPart& part = p_.parts[i];
      const ConvWeightStep* const steps = steps_.steps + part.first_step;
      if (part.steps > 1) spacing[i] = steps[1].from - steps[0].from;
      if (steps->taps > 1 && steps_.tap_stride != padded) return false;
      if (part.steps > 1 && (spacing[i] < 0 || part.K * w.weight.element_size() % 128 != 0)) return false;
      const auto strides = uint64_t(w.out_stride | spacing[i] | steps->from) * w.weight.element_size();
      if (!runtime::is_vector_aligned(runtime::address_of(w.weight.const_data_ptr()) | strides)) return false;
      for (uint32_t k = 1; k < part.steps; ++k)
        if (steps[k].from - steps[k - 1].from != spacing[i]) return false;
    }
    for (uint32_t i = 0; i < p_.part_count; ++i) {
      ConvGemmPart& part = p_.parts[i];
      part.right = steps_.steps[part.first_step].from;
      part.right_pitch = w.out_stride;
      part.right_rows = uint32_t(w.outputs());
      part.right_row_step = 0;
      part.right_column_step = uint32_t(spacing[i]);
      part.right_width = uint32_t((part.steps - 1) * spacing[i]) + part.K;
    }
    return true;
  }

  // Lets the parts read the weight in place and returns true, if they also read the tensors in place and the weight's
  // output channels are contiguous, as in the input gradient of a channels-last convolution. float32 weights are
  // copied, because transposing their tiles in the kernel takes longer (512x7x512x3 190 instead of 185 us, H200).
  bool reads_weight_by_channel() {
    const GroupedWeight& w = weight_;
    const auto size = int64_t(w.weight.element_size());
    const auto strides = uint64_t(w.channel_stride | w.groups * w.group_stride) * uint64_t(size);
    if (!plan_.in_place || size == 4 || w.out_stride != 1 || w.channel_stride < w.outputs() ||
        !runtime::is_vector_aligned(runtime::address_of(w.weight.const_data_ptr()) | strides))
      return false;
    for (uint32_t i = 0; i < p_.part_count; ++i) {
      ConvGemmPart& part = p_.parts[i];
      // The weights of the part's matrix, which start at a multiple of the stride between matrices.
      const int64_t first = steps_.steps[part.first_step].from;
      part.right = first - first % w.channel_stride;
      part.right_pitch = w.channel_stride;
      part.right_rows = uint32_t(w.channels());
      part.right_width = uint32_t(w.channel_stride);
      for (uint32_t k = part.first_step; k < part.first_step + part.steps; ++k)
        p_.rows[k] = uint32_t(steps_.steps[k].from - part.right);
    }
    return true;
  }

  Tensor pack_weights() {
    static const KernelSet kernels("conv_pack_weight_tensor");
    const GroupedWeight& w = weight_;
    ConvWeightParams& p = steps_;
    p.group_stride = w.group_stride;
    p.out_stride = w.out_stride;
    p.channel_stride = w.channel_stride;
    p.channels = uint32_t(w.channels());
    p.padded_channels = uint32_t(plan_.grid.padded_channels);
    p.fold_taps = uint32_t(plan_.grid.fold.taps);
    p.group_outputs = uint32_t(w.group_outputs);
    p.group_channels = uint32_t(w.group_channels);
    p.by_channels = make_fast_divmod(p.channels);
    p.by_group_channels = make_fast_divmod(p.group_channels);
    const Tensor packed = at::empty({weights_size_}, out_.options().memory_format(std::nullopt));
    Launch l(kernels.get(tag_of(packed)));
    l.outputs(packed).inputs(w.weight).bytes(p);
    // Adjacent rows share a threadgroup, because each cache line of a transposed weight has elements of several rows.
    l.threads_in_groups({p.padded_channels, uint32_t(w.outputs()), uint32_t(step_count_)}, {32, 8, 1}).run();
    return packed;
  }

  const Tensor &out_, &pixels_, &bias_;
  const GroupedWeight& weight_;
  const Plan& plan_;
  ConvPixelParams pixel_params_{};
  ConvGemmParams& p_ = pixel_params_.gemm;
  ConvWeightParams steps_{};
  ConvWork work_{};
  int64_t rows_ = 0, weights_size_ = 0;
  size_t step_count_ = 0;
};

}  // namespace mpsx::ops
