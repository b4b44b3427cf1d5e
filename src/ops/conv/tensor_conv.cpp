#include "ops/conv/tensor_conv.h"

#include <ATen/ops/empty.h>

#include <limits>

#include "ops/conv/part_launcher.h"
#include "ops/conv/weight_launcher.h"
#include "ops/matmul/matmul.h"
#include "runtime/tier.h"

namespace mpsx::ops {
namespace {

// Along each dimension with a single tap, takes every stride-th pixel of the source, so that the stride becomes 1.
Tensor subsample(Tensor source, ConvWindow& w) {
  for (int d = 0; d < 3; ++d) {
    if (w.taps[d] != 1 || w.stride[d] == 1 || w.padding[d] != 0) continue;
    source = source.slice(d + 2, 0, (int64_t(w.positions[d]) - 1) * w.stride[d] + 1, w.stride[d]);
    w.source[d] = w.positions[d];
    w.stride[d] = 1;
  }
  return source;
}
bool is_pointwise(const ConvWindow& w) {
  bool pointwise = true;
  for (int d = 0; d < 3; ++d)
    pointwise = pointwise && w.taps[d] == 1 && w.stride[d] == 1 && w.padding[d] == 0 && w.source[d] == w.positions[d];
  return pointwise;
}

bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0; }
// Returns a [positions, channels] view if the tensor's channels are contiguous, aligned and whole vectors, or else an
// undefined tensor.
Tensor rows_of_pixels(const Tensor& t) {
  const int64_t channels = t.size(1);
  const bool whole =
      t.is_contiguous(at::MemoryFormat::ChannelsLast3d) && channels % vector_elements(t) == 0 && is_aligned(t);
  return whole ? strided_view(t, {t.numel() / channels, channels}, {channels, 1}) : Tensor();
}
// Returns an [images, channels, positions] view if the tensor's positions are contiguous, aligned and whole vectors, or
// else an undefined tensor.
Tensor rows_of_channels(const Tensor& t) {
  const int64_t pixels = spatial_size(t);
  const bool whole = t.is_contiguous() && pixels % vector_elements(t) == 0 && is_aligned(t);
  return whole ? strided_view(t, {t.size(0), t.size(1), pixels}, {t.size(1) * pixels, pixels, 1}) : Tensor();
}

// Returns the weight of a convolution with one tap as an [O, C] view, or as [C, O] if `transposed`.
Tensor matrix_of(const Tensor& weight, bool transposed) {
  const int64_t rows = transposed ? 1 : 0, columns = 1 - rows;
  return strided_view(weight, {weight.size(rows), weight.size(columns)}, {weight.stride(rows), weight.stride(columns)});
}

// Computes a convolution with one tap as a GEMM on the operands themselves, if their layouts allow it. `weight` is [O,
// C].
bool launch_pointwise(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias) {
  GemmEpilogue epilogue;
  epilogue.beta = bias.defined() ? 1 : 0;
  if (const Tensor x = rows_of_pixels(source), y = rows_of_pixels(out); x.defined() && y.defined()) {
    if (bias.defined()) epilogue.c = bias.expand_as(y);
    gemm(y, x, weight.t(), epilogue);
    return true;
  }
  const Tensor x = rows_of_channels(source), y = rows_of_channels(out);
  if (!x.defined() || !y.defined()) return false;
  if (bias.defined()) epilogue.c = bias.view({1, -1, 1}).expand_as(y);
  gemm(y, weight.expand({x.size(0), weight.size(0), weight.size(1)}), x, epilogue);
  return true;
}

// Computes the weight gradient of a convolution with one tap. `out` is [O, C].
bool launch_pointwise_weight(const Tensor& out, const Tensor& source, const Tensor& grad) {
  if (const Tensor x = rows_of_pixels(source), dy = rows_of_pixels(grad); x.defined() && dy.defined()) {
    gemm(out, dy.t(), x);
    return true;
  }
  const Tensor x = rows_of_channels(source), dy = rows_of_channels(grad);
  if (!x.defined() || !dy.defined()) return false;
  // Each step of the GEMM covers one image.
  ConvGemmParams p{};
  p.M = uint32_t(dy.size(1));
  p.N = uint32_t(x.size(1));
  p.part_count = 1;
  ConvGemmPart& part = p.parts[0];
  part.K = uint32_t(x.size(2));
  part.steps = uint32_t(x.size(0));
  part.right_pitch = x.stride(1);
  part.right_width = part.K;
  part.right_row_step = p.N;
  part.right_rows = part.steps * p.N;
  part.left_rows = part.steps * p.M;
  p.left_pitch = dy.stride(1);
  p.left_step = p.M;
  p.steps_per_split = choose_steps_per_split(p.M, p.N, part.K, part.steps, x.element_size());
  p.has_partials = 1;
  const int64_t splits = int64_t(ceil_div(part.steps, p.steps_per_split));
  ConvWork work{p.M, p.N};
  work.add(p.steps_per_split, part.K, x.element_size());
  if (splits == 1 && out.scalar_type() == at::kFloat) {
    launch_conv_gemm(p, work, Tensor(), dy, x, Tensor(), out);
    return true;
  }
  const Tensor partials =
      at::empty({splits, out.size(0), out.size(1)}, out.options().dtype(at::kFloat).memory_format(std::nullopt));
  launch_conv_gemm(p, work, Tensor(), dy, x, Tensor(), partials);
  ConvWeightGradParams sums{};
  sums.M = p.M;
  sums.N = sums.padded_channels = sums.channels = p.N;
  sums.splits = uint32_t(splits);
  sums.steps = sums.matrices = 1;
  sums.row_taps = sums.fold_taps = 1;
  sums.group_outputs = p.M;
  reduce_weight_gradient(out.unflatten(1, {-1, 1, 1, 1}), partials, dy, x, sums);
  return true;
}

// Returns whether the rows of a plan's boxes are at least 16 bytes of an output whose pixels are contiguous. Storing
// shorter ones takes longer than padding the input: 256x14x256x3 from and to contiguous tensors in bfloat16, with two
// pixels per row, 57 instead of 42 us, but 128x28x128x3 in float32, with four, 179 instead of 255 us (H200).
bool has_long_box_rows(const Plan& plan, int64_t size) {
  constexpr uint32_t kTileRows = 128;
  const BoxedOutputs outputs = *plan.boxed();
  return std::min(outputs.size[0], int64_t(1) << outputs.boxes(kTileRows).log2_size[0]) * size >= 16;
}

}  // namespace

bool uses_tensor_convolution(const Tensor& t) {
  return runtime::uses_tensor_tier() && runtime::prefers_large_tensor_tiles() && is_float_tag(tag_of(t));
}

bool tensor_convolution(const Tensor& out_given, const Tensor& source_given, const Tensor& weight_given,
                        const Tensor& bias, const ConvWindow& window, int64_t groups, bool backward, double limit,
                        PackedPixels& packed) {
  const Tensor out = with_three_dims(out_given), weight = with_three_dims(weight_given);
  Tensor source = with_three_dims(source_given);
  if (source.numel() == 0 || out.numel() > std::numeric_limits<int32_t>::max()) return false;
  ConvWindow w = window;
  if (!backward) source = subsample(source, w);
  const double size = double(out.element_size());
  const double macs = double(weight.numel()) * double(spatial_size(backward ? source : out)) * double(out.size(0));
  const bool forced = runtime::forces_tensor_tier();
  if (groups == 1 && is_pointwise(w) && (forced || pointwise_is_faster(out.size(1), source.size(1), out.numel())) &&
      launch_pointwise(out, source, matrix_of(weight, backward), bias))
    return true;
  // In place, a box is loaded for every tap, and not for a row of taps. With few outputs, the L2 cache limits this:
  // 64x56x64x3x1 in bfloat16 takes 52 us, and 37 us with packed rows, without the time for packing (H200).
  constexpr int64_t kNarrowOutputs = 64;
  constexpr double kNarrowBoxes = 1.4;
  bool complete;
  const std::vector<ConvPart> parts = conv_parts(out, w, backward, complete);
  if (parts.empty()) return false;
  const GroupedWeight grouped = group_weight(weight, groups, backward);
  std::vector<ConvAxes> axes;
  for (const ConvPart& part : parts) axes.push_back(part.axes);
  auto plans = packed_plans(source, grouped.channels(), axes);
  if (grouped.groups == 1) {
    plans.push_back(make_plan_in_place(source, grouped.channels(), axes));
    if (plans.back() && out.stride(1) != 1 && !has_long_box_rows(*plans.back(), int64_t(size))) plans.pop_back();
  }
  const auto plan = choose_plan(std::move(plans), [&](const Plan& p) {
    ConvWork work{0, uint64_t(grouped.outputs())};
    work.boxed = p.boxed();
    double weights = 0;
    for (size_t i = 0; i < p.steps.size(); ++i) {
      if (!p.in_place) work.M = std::max(work.M, uint64_t(p.grid.windows(p.axes[i])));
      weights += double(p.steps[i].K) * double(p.steps[i].offsets.size()) * double(out.size(1));
      for (int64_t m = 0; m < grouped.matrices; ++m)
        work.add(double(p.steps[i].offsets.size()), uint64_t(p.steps[i].K), size_t(size));
    }
    const double gemms = choose_conv_tile(work, size_t(size)).time;
    return (complete ? 0 : copy_time(double(out.numel()) * size)) + copy_time(weights * 2 * size) +
           (p.in_place && size == 2 && grouped.outputs() <= kNarrowOutputs ? gemms * kNarrowBoxes : gemms);
  });
  const int64_t outputs = grouped.group_outputs, channels = grouped.group_channels;
  const double simdgroup = simdgroup_time(macs, outputs, channels, w, backward, size);
  if (!plan || (!plan->in_place && !steps_are_rows(*plan)) || (!forced && plan->time > std::min(simdgroup, limit)))
    return false;
  const bool is_copied = !plan->in_place || !has_readable_pixels(source, grouped.channels());
  const Tensor pixels = !is_copied       ? source
                        : plan->in_place ? copy_channels_last(source)
                                         : pack_pixels(source, plan->grid, grouped.matrices);
  if (is_copied && (plan->in_place || grouped.matrices == 1))
    packed = {source_given, pixels, plan->in_place ? PixelGrid{} : plan->grid};
  if (!complete) fill_with_bias(out, bias);
  PartLauncher launcher(out, pixels, bias, grouped, *plan);
  for (int64_t matrix = 0; matrix < grouped.matrices; ++matrix)
    for (size_t i = 0; i < parts.size(); ++i) launcher.add(parts[i], i, matrix);
  launcher.launch();
  return true;
}

bool tensor_weight_gradient(const Tensor& out_given, const Tensor& source_given, const Tensor& grad_given,
                            const ConvWindow& window, int64_t groups, const PackedPixels& packed) {
  const Tensor out = with_three_dims(out_given), grad = with_three_dims(grad_given);
  ConvWindow w = window;
  const Tensor source = subsample(with_three_dims(source_given), w);
  if (source.numel() == 0) return false;
  const double size = double(out.element_size());
  const GroupedWeight grouped = group_weight(out, groups, false);
  const int64_t O = grouped.outputs(), matrices = grouped.matrices;
  const double positions = double(spatial_size(grad)) * double(grad.size(0)), macs = double(out.numel()) * positions;
  const bool forced = runtime::forces_tensor_tier();
  if (groups == 1 && is_pointwise(w) && (forced || pointwise_is_faster(O, out.size(1), grad.numel())) &&
      launch_pointwise_weight(out.view({O, -1}), source, grad))
    return true;
  const int64_t vec = vector_elements(grad), padded = int64_t(ceil_div(O, vec)) * vec;
  // The output gradient of every window, or zero for windows that start in the padding.
  const auto window_grid = [&](const PixelGrid& grid) {
    PixelGrid windows{grid.images, O, padded, {}, {1, 1, 1}, {grid.pitch[0], grid.pitch[1], grid.pitch[2]}, 0, {}};
    windows.plane = grid.images * grid.pitch[0] * grid.pitch[1] * grid.pitch[2];
    return windows;
  };
  const auto packed_windows = [&](const Plan& p) {
    return packed.source.is_same(grad_given) && matrices == 1
               ? packed.without_padding(window_grid(p.grid), p.grid.windows(p.axes[0]))
               : Tensor();
  };
  auto plans = packed_plans(source, grouped.channels(), {forward_axes(w)});
  // The tensor to read in place: itself, the copy that was packed for the other gradient, or undefined.
  const auto readable = [&](const Tensor& t, const Tensor& given, int64_t channels) {
    if (has_readable_pixels(t, channels)) return t;
    const bool is_copied = packed.is_channels_last() && packed.source.is_same(given);
    return is_copied && packed.pixels.sizes() == t.sizes() ? packed.pixels : Tensor();
  };
  const Tensor readable_grad = readable(grad, grad_given, O);
  if (grouped.groups == 1 && O % vec == 0)
    plans.push_back(make_plan_in_place(source, grouped.channels(), {forward_axes(w)}));
  const auto plan = choose_plan(std::move(plans), [&](const Plan& p) {
    if (p.in_place) {
      const int64_t columns = weight_pixel_columns(grouped.channels(), size_t(size));
      const uint32_t pixels = weight_box_pixels(size_t(size));
      return (readable_grad.defined() ? 0 : channels_last_time(grad)) +
             weight_gradient_time(O, columns * int64_t(p.steps[0].offsets.size()),
                                  double(p.boxed()->boxes(pixels).total * pixels), double(matrices), size);
    }
    const auto windows = double(p.grid.windows(p.axes[0]));
    const double copied = double(grad.numel()) + double(matrices) * windows * double(padded);
    return (packed_windows(p).defined() ? 0 : copy_time(copied * size)) +
           weight_gradient_time(O, p.steps[0].K, windows, double(matrices) * double(p.steps[0].offsets.size()), size);
  });
  if (!plan || (!forced && plan->time > simdgroup_weight_time(macs, grouped.group_outputs, grouped.group_channels,
                                                              positions, size)))
    return false;
  if (plan->in_place) {
    Tensor pixels = readable(source, source_given, grouped.channels());
    if (!pixels.defined()) pixels = copy_channels_last(source);
    launch_weight_gradient_in_place(out, readable_grad.defined() ? readable_grad : copy_channels_last(grad), pixels,
                                    grouped, plan->axes[0], *plan->boxed());
    return true;
  }
  const PixelGrid& grid = plan->grid;
  const Steps& steps = plan->steps[0];
  const PixelGrid windows = window_grid(grid);
  Tensor pixels = packed.source.is_same(source_given) ? packed.with_grid(grid) : Tensor(), dy = packed_windows(*plan);
  if (!pixels.defined()) pixels = pack_pixels(source, grid, matrices);
  if (!dy.defined()) dy = pack_pixels(grad, windows, matrices);
  if (groups == 1 && out.numel() == O * steps.K && steps.K == out.size(1)) {  // a single tap
    const int64_t P = grid.windows(plan->axes[0]);
    gemm(out.view({O, -1}), dy.as_strided({O, P}, {1, padded}),
         pixels.as_strided({P, steps.K}, {grid.stride[2] * grid.padded_channels, 1}));
  } else {
    launch_weight_gradient(out, dy, pixels, windows, grouped, *plan);
  }
  return true;
}

Tensor pack_shared_gradient(const Tensor& grad) {
  const Tensor t = with_three_dims(grad);
  const int64_t channels = t.size(1);
  if (rows_of_pixels(t).defined() || rows_of_channels(t).defined() || channels % vector_elements(t) != 0) return grad;
  const Tensor copy = copy_channels_last(t);
  return grad.dim() == 5 ? copy : copy.view(grad.sizes());
}

}  // namespace mpsx::ops
