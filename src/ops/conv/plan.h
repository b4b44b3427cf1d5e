// Plans a convolution on the tensor tier: the packed copy of its input, and the GEMM steps that read it.
#pragma once

#include <limits>
#include <optional>

#include "ops/conv/parts.h"
#include "ops/conv/tensor_cost.h"

namespace mpsx::ops {

inline int64_t vector_elements(const Tensor& t) { return 16 / int64_t(t.element_size()); }

// The GEMM steps of a convolution. Each step multiplies K elements of every window.
struct Steps {
  std::vector<int64_t> offsets;  // offset of each step, in pixels
  int64_t K;
  bool whole_rows;  // whether a step covers a whole row of taps, which must be contiguous
};
inline Steps make_steps(const PixelGrid& grid, const ConvAxes& axes) {
  const std::vector<int64_t>& x = axes[2].taps;
  Steps steps{{}, grid.padded_channels, x.back() - x.front() + 1 == int64_t(x.size())};
  if (steps.whole_rows) steps.K *= int64_t(x.size());
  for (const int64_t a : axes[0].taps)
    for (const int64_t b : axes[1].taps)
      for (const int64_t c : x) {
        steps.offsets.push_back(grid.offset(a, b, c));
        if (steps.whole_rows) break;
      }
  return steps;
}

// Returns whether 32-bit indices suffice and the offsets of all steps fit in the parameters.
inline bool fits(const PixelGrid& grid, const Steps& steps) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return grid.pixels() <= kMost / (grid.padded_channels / 4 + 1) && steps.K <= kMost &&
         steps.offsets.size() <= kMaxConvSteps;
}

// How to compute a convolution: how its input is packed, and which GEMMs read the packed input. If `in_place` is true,
// they read the input itself, or a channels-last copy, whose pixels are not those of the grid. `time` is an estimate
// for packing and GEMMs, in microseconds.
struct Plan {
  PixelGrid grid;
  std::vector<ConvAxes> axes;
  std::vector<Steps> steps;
  double time = 0;
  bool in_place = false;

  // Returns the outputs of all parts if the plan is in place.
  std::optional<BoxedOutputs> boxed() const {
    if (!in_place) return std::nullopt;
    BoxedOutputs outputs{{0, 0, 0, grid.images}, {grid.stride[2], grid.stride[1], grid.stride[0], 1}};
    for (const ConvAxes& part : axes)
      for (size_t d = 0; d < 3; ++d) outputs.size[d] = std::max(outputs.size[d], part[2 - d].positions);
    return outputs;
  }
};

// Returns whether all steps of all windows start where a window starts, as conv_gemm_tensor requires. With a stride and
// a dilation along the last dimension, they may not.
inline bool steps_are_rows(const Plan& plan) {
  for (const Steps& steps : plan.steps)
    for (const int64_t offset : steps.offsets)
      if (offset % plan.grid.stride[2] != 0) return false;
  return true;
}

// If `fold` is true, combines the rows of taps into longer rows, for inputs whose channels do not fill a tile of K (128
// bytes). The copy is then several times larger, and slower to make.
inline std::optional<Plan> make_plan(const Tensor& source, int64_t channels, std::vector<ConvAxes> axes, bool fold) {
  Plan plan;
  ConvFold folded;
  if (fold) {
    ConvAxis& y = axes.front()[1];
    if (axes.size() > 1 || y.taps.size() == 1 || channels * source.element_size() >= 128) return std::nullopt;
    folded = {int64_t(y.taps.size()), y.padding - y.taps[0], y.stride, y.taps[1] - y.taps[0]};
    y = {y.positions, 0, y.positions, 1, {0}};
  }
  plan.grid = make_pixel_grid(source.size(0), channels, vector_elements(source), axes, folded);
  for (const ConvAxes& a : axes) {
    plan.steps.push_back(make_steps(plan.grid, a));
    if (!fits(plan.grid, plan.steps.back()) || (fold && !plan.steps.back().whole_rows)) return std::nullopt;
  }
  if (!has_grid_layout(source, plan.grid))
    plan.time = copy_time((double(source.numel()) +
                           double(plan.grid.pixels() * plan.grid.padded_channels) * double(source.size(1) / channels)) *
                          double(source.element_size()));
  plan.axes = std::move(axes);
  return plan;
}

inline double channels_last_time(const Tensor& t) {
  return copy_time(2 * double(t.numel()) * double(t.element_size()));
}
// Returns a plan for reading the source in place, or a channels-last copy of it, if that is possible. Each step covers
// one tap.
inline std::optional<Plan> make_plan_in_place(const Tensor& source, int64_t channels,
                                              const std::vector<ConvAxes>& axes) {
  Plan plan;
  plan.in_place = true;
  plan.axes = axes;
  plan.grid.images = source.size(0);
  plan.grid.channels = plan.grid.padded_channels = channels;
  for (size_t d = 0; d < 3; ++d) plan.grid.stride[d] = axes.front()[d].stride;
  constexpr int64_t kLargestStride = 8;              // of TMA
  constexpr int64_t kMaxOutputs = int64_t(1) << 28;  // rows of all boxes have 32-bit indices
  bool possible = channels % vector_elements(source) == 0;
  for (const ConvAxes& a : axes) {
    possible = possible && source.size(0) * a[0].positions * a[1].positions * a[2].positions <= kMaxOutputs;
    const size_t taps = a[0].taps.size() * a[1].taps.size() * a[2].taps.size();
    possible = possible && taps <= kMaxConvSteps;
    for (const ConvAxis& axis : a) possible = possible && axis.stride <= kLargestStride;
    plan.steps.push_back({std::vector<int64_t>(taps), channels, false});
  }
  if (!possible) return std::nullopt;
  if (!has_readable_pixels(source, channels)) plan.time = channels_last_time(source);
  return plan;
}

// Returns the plans with and without folded rows. Each of their GEMMs reads `channels` of the source.
inline std::vector<std::optional<Plan>> packed_plans(const Tensor& source, int64_t channels,
                                                     const std::vector<ConvAxes>& axes) {
  return {make_plan(source, channels, axes, false), make_plan(source, channels, axes, true)};
}
// Returns the fastest of the plans. `time` returns the time that a plan's GEMMs take.
template <typename Time>
std::optional<Plan> choose_plan(std::vector<std::optional<Plan>> plans, Time time) {
  std::optional<Plan> best;
  for (std::optional<Plan>& plan : plans) {
    if (!plan) continue;
    plan->time += time(*plan);
    if (!best || plan->time < best->time) best = std::move(plan);
  }
  return best;
}

// A weight whose groups are combined into matrices, several per matrix, because GEMM tiles of a group with few channels
// would be nearly empty. The blocks off the diagonal of a matrix are zero.
struct GroupedWeight {
  Tensor weight;
  int64_t matrices, groups, group_outputs, group_channels;  // groups per matrix; outputs and channels per group
  int64_t group_stride, out_stride, channel_stride;
  int64_t outputs() const { return groups * group_outputs; }
  int64_t channels() const { return groups * group_channels; }
};
// Combines groups to at most kMatrixChannels channels per matrix. `weight` is [O, C / groups, D, H, W].
inline GroupedWeight group_weight(const Tensor& weight, int64_t groups, bool backward) {
  constexpr int64_t kMatrixChannels = 64;
  const int64_t rows = weight.size(0) / groups, columns = weight.size(1);
  int64_t merged = 1;
  for (int64_t n = 2; n <= groups && n * std::max(rows, columns) <= kMatrixChannels; ++n)
    if (groups % n == 0) merged = n;
  const int64_t row = weight.stride(0), column = weight.stride(1);
  if (backward) return {weight, groups / merged, merged, columns, rows, rows * row, column, row};
  return {weight, groups / merged, merged, rows, columns, rows * row, row, column};
}

}  // namespace mpsx::ops
