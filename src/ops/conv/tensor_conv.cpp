#include "ops/conv/tensor_conv.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <limits>
#include <memory>
#include <optional>

#include "ops/conv/parts.h"
#include "ops/conv/pixel_grid.h"
#include "ops/conv/tensor_cost.h"
#include "ops/matmul/matmul.h"
#include "runtime/tier.h"

namespace mpsx::ops {
namespace {

int64_t vector_elements(const Tensor& t) { return 16 / int64_t(t.element_size()); }

// The GEMM steps of a convolution. Each step multiplies K elements of every window.
struct Steps {
  std::vector<int64_t> offsets;  // offset of each step, in pixels
  int64_t K;
  bool whole_rows;  // whether a step covers a whole row of taps, which must be contiguous
};
Steps make_steps(const PixelGrid& grid, const ConvAxes& axes) {
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

// Rearranges a weight of shape [O, C, D, H, W] to [step, O, K].
Tensor weight_of_steps(const Tensor& weight, const PixelGrid& grid, const Steps& steps) {
  Tensor t;
  if (grid.fold.taps > 1)
    t = weight.permute({2, 0, 4, 3, 1}).flatten(3);
  else
    t = weight.permute(steps.whole_rows ? at::IntArrayRef{2, 3, 0, 4, 1} : at::IntArrayRef{2, 3, 4, 0, 1});
  return pad_channels(t, grid.padded_channels).view({int64_t(steps.offsets.size()), weight.size(0), steps.K});
}
// Arranges [O, steps, K] as a weight, without the padding.
Tensor weight_from_steps(const Tensor& t, at::IntArrayRef size, const PixelGrid& grid) {
  const int64_t O = size[0], C = size[1], T = size[2], R = size[3], S = size[4];
  const int64_t channels = grid.fold.taps * grid.channels, padded = grid.padded_channels;
  if (grid.fold.taps == 1) return t.view({O, T, R, S, padded}).narrow(4, 0, C).permute({0, 4, 1, 2, 3});
  // Transpose the channels, which coalesces, before the few taps.
  const Tensor taps = t.view({O, T, S, padded}).narrow(3, 0, channels).view({O, T, S, R, C});
  return taps.permute({0, 4, 1, 2, 3}).contiguous().transpose(3, 4);
}

// Returns whether 32-bit indices suffice and the offsets of all steps fit in the parameters.
bool fits(const PixelGrid& grid, const Steps& steps) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return grid.pixels() <= kMost / (grid.padded_channels / 4 + 1) && steps.K <= kMost &&
         steps.offsets.size() <= kMaxConvSteps;
}

// A packed layout that some parts of a convolution share, and the estimated time of the copy and of the parts' GEMMs.
struct Plan {
  PixelGrid grid;
  std::vector<ConvAxes> axes;
  std::vector<Steps> steps;
  double time = 0;
};

// If `fold` is true, combines the rows of taps into longer rows, for inputs with few channels.
std::optional<Plan> make_plan(const Tensor& source, std::vector<ConvAxes> axes, bool fold) {
  Plan plan;
  ConvFold folded;
  if (fold) {
    ConvAxis& y = axes.front()[1];
    if (axes.size() > 1 || y.taps.size() == 1) return std::nullopt;
    folded = {int64_t(y.taps.size()), y.padding - y.taps[0], y.stride, y.taps[1] - y.taps[0]};
    y = {y.positions, 0, y.positions, 1, {0}};
  }
  plan.grid = make_pixel_grid(source.size(0), source.size(1), vector_elements(source), axes, folded);
  for (const ConvAxes& a : axes) {
    plan.steps.push_back(make_steps(plan.grid, a));
    if (!fits(plan.grid, plan.steps.back()) || (fold && !plan.steps.back().whole_rows)) return std::nullopt;
  }
  if (!has_grid_layout(source, plan.grid))
    plan.time = copy_time(double(source.numel() + plan.grid.pixels() * plan.grid.padded_channels) *
                          double(source.element_size()));
  plan.axes = std::move(axes);
  return plan;
}

// Returns the faster of the plans with and without folded rows. `time` returns the time that a plan's GEMMs take.
template <typename Time>
std::optional<Plan> choose_plan(const Tensor& source, const std::vector<ConvAxes>& axes, Time time) {
  std::optional<Plan> best;
  for (const bool fold : {false, true}) {
    std::optional<Plan> plan = make_plan(source, axes, fold);
    if (!plan) continue;
    plan->time += time(*plan);
    if (!best || plan->time < best->time) best = std::move(plan);
  }
  return best;
}

const KernelSet& gemm_kernels(size_t tile) {
  static const auto* const all = [] {
    auto* sets = new std::vector<std::unique_ptr<KernelSet>>;
    for (const ConvTile& t : kConvTiles)
      sets->push_back(std::make_unique<KernelSet>(std::string("conv_gemm_tensor_") + t.name));
    return sets;
  }();
  return *(*all)[tile];
}

void launch_conv_gemm(const ConvGemmParams& p, const Tensor& out, const Tensor& left, const Tensor& right,
                      const Tensor& bias, const Tensor& partials) {
  const Tensor& result = out.defined() ? out : partials;
  const size_t size = left.element_size();
  const size_t tile = choose_conv_tile(p.M, p.N, p.K, p.steps_per_split, size).tile;
  const ConvTile& t = kConvTiles[tile];
  Launch l(gemm_kernels(tile).get(tag_of(left)));
  l.outputs(result).inputs(left, right, bias).bytes(p).outputs(partials);
  l.groups({uint32_t(tile_count(p.M, p.N, 1, t.M, t.N)), 1, uint32_t(ceil_div(p.steps, p.steps_per_split))},
           t.threads(size), true);
  l.work(uint64_t(t.M) * t.N * (1 + uint64_t(p.K) * p.steps_per_split / 16)).run();
}

bool is_channels_last(const Tensor& out) { return out.stride(1) == 1 && out.size(1) > 1; }

void launch_part(const ConvPart& part, const ConvAxes& axes, const PixelGrid& grid, const Steps& steps,
                 const Tensor& pixels, const Tensor& bias) {
  const Tensor weight = weight_of_steps(part.weight, grid, steps);
  ConvGemmParams p{};
  p.pixels_left = is_channels_last(part.out);
  const ConvGemmOperand windows = {grid.stride[2] * grid.padded_channels, 0};
  const ConvGemmOperand weights = {steps.K, weight.size(1) * steps.K};
  p.left = p.pixels_left ? windows : weights;
  p.right = p.pixels_left ? weights : windows;
  for (size_t i = 0; i < steps.offsets.size(); ++i) p.offsets[i] = steps.offsets[i] * grid.padded_channels;
  p.has_offsets = 1;
  p.out_image = uint32_t(part.out.stride(0));
  p.out_channel = uint32_t(part.out.stride(1));
  for (int d = 0; d < 3; ++d) {
    p.out_stride[d] = uint32_t(part.out.stride(d + 2));
    p.positions[d] = uint32_t(axes[d].positions);
  }
  const auto rows = uint32_t(grid.windows(axes)), channels = uint32_t(weight.size(1));
  p.M = p.pixels_left ? rows : channels;
  p.N = p.pixels_left ? channels : rows;
  p.K = uint32_t(steps.K);
  p.steps = p.steps_per_split = uint32_t(steps.offsets.size());
  p.has_bias = bias.defined();
  p.images = uint32_t(grid.images);
  p.grid = grid.outputs();
  launch_conv_gemm(p, part.out, p.pixels_left ? pixels : weight, p.pixels_left ? weight : pixels, bias, Tensor());
}

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
  const Tensor last = t.permute({0, 2, 3, 4, 1});
  const bool whole = last.is_contiguous() && t.size(1) % vector_elements(t) == 0 && is_aligned(t);
  return whole ? last.view({-1, t.size(1)}) : Tensor();
}
// Returns an [images, channels, positions] view if the tensor's positions are contiguous, aligned and whole vectors, or
// else an undefined tensor.
Tensor rows_of_channels(const Tensor& t) {
  const bool whole = t.is_contiguous() && t[0][0].numel() % vector_elements(t) == 0 && is_aligned(t);
  return whole ? t.view({t.size(0), t.size(1), -1}) : Tensor();
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
  p.K = uint32_t(x.size(2));
  p.left = {dy.stride(1), dy.stride(0)};
  p.right = {x.stride(1), x.stride(0)};
  p.steps = uint32_t(x.size(0));
  p.steps_per_split = choose_steps_per_split(p.M, p.N, p.K, p.steps, x.element_size());
  p.has_partials = 1;
  const int64_t splits = int64_t(ceil_div(p.steps, p.steps_per_split));
  const bool is_float = out.scalar_type() == at::kFloat;
  Tensor partials = out.unsqueeze(0);
  if (splits > 1 || !is_float)
    partials =
        at::empty({splits, out.size(0), out.size(1)}, out.options().dtype(at::kFloat).memory_format(std::nullopt));
  launch_conv_gemm(p, Tensor(), dy, x, Tensor(), partials);
  if (!is_float)
    out.copy_(splits == 1 ? partials[0] : at::sum(partials, 0));
  else if (splits > 1)
    at::sum_out(const_cast<Tensor&>(out), partials, 0);
  return true;
}

}  // namespace

bool uses_tensor_convolution(const Tensor& t) {
  return runtime::uses_tensor_tier() && runtime::prefers_large_tensor_tiles() && is_float_tag(tag_of(t));
}

bool tensor_convolution(const Tensor& out_given, const Tensor& source_given, const Tensor& weight_given,
                        const Tensor& bias, const ConvWindow& window, bool backward) {
  const Tensor out = with_three_dims(out_given);
  Tensor source = with_three_dims(source_given), weight = with_three_dims(weight_given);
  if (source.numel() == 0 || out.numel() > std::numeric_limits<int32_t>::max()) return false;
  ConvWindow w = window;
  if (backward)
    weight = weight.transpose(0, 1);
  else
    source = subsample(source, w);
  const double size = double(out.element_size());
  const double macs = double(weight.numel()) * double((backward ? source : out)[0][0].numel()) * double(out.size(0));
  const bool forced = runtime::forces_tensor_tier();
  if (is_pointwise(w) && (forced || pointwise_is_faster(out.size(1), source.size(1), out.numel())) &&
      launch_pointwise(out, source, weight.flatten(1), bias))
    return true;
  bool complete = true;
  const std::vector<ConvPart> parts =
      backward ? backward_parts(out, weight, w, complete) : std::vector<ConvPart>{{forward_axes(w), out, weight}};
  if (parts.empty()) return false;
  std::vector<ConvAxes> axes;
  for (const ConvPart& part : parts) axes.push_back(part.axes);
  const bool channels_last = is_channels_last(out);
  const auto plan = choose_plan(source, axes, [&](const Plan& p) {
    double time = complete ? 0 : copy_time(double(out.numel()) * size);
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const auto rows = uint64_t(p.grid.windows(p.axes[i])), channels = uint64_t(out.size(1));
      time += choose_conv_tile(channels_last ? rows : channels, channels_last ? channels : rows, uint64_t(p.steps[i].K),
                               p.steps[i].offsets.size(), size_t(size))
                  .time;
      time += copy_time(double(parts[i].weight.numel()) * 2 * size);
    }
    return time;
  });
  if (!plan || (!forced && plan->time > simdgroup_time(macs, source.size(1), size))) return false;
  const Tensor pixels = pack_pixels(source, plan->grid);
  if (!complete && bias.defined())
    out.copy_(bias.view({1, -1, 1, 1, 1}).expand_as(out));
  else if (!complete)
    out.zero_();
  for (size_t i = 0; i < parts.size(); ++i)
    launch_part(parts[i], plan->axes[i], plan->grid, plan->steps[i], pixels, bias);
  return true;
}

bool tensor_weight_gradient(const Tensor& out_given, const Tensor& source_given, const Tensor& grad_given,
                            const ConvWindow& window) {
  const Tensor out = with_three_dims(out_given), grad = with_three_dims(grad_given);
  ConvWindow w = window;
  const Tensor source = subsample(with_three_dims(source_given), w);
  if (source.numel() == 0) return false;
  const double size = double(out.element_size());
  const int64_t O = out.size(0);
  const double positions = double(grad[0][0].numel()) * double(grad.size(0)), macs = double(out.numel()) * positions;
  const bool forced = runtime::forces_tensor_tier();
  if (is_pointwise(w) && (forced || pointwise_is_faster(O, out.size(1), grad.numel())) &&
      launch_pointwise_weight(out.view({O, -1}), source, grad))
    return true;
  const int64_t vec = vector_elements(grad), padded = int64_t(ceil_div(O, vec)) * vec;
  const auto plan = choose_plan(source, {forward_axes(w)}, [&](const Plan& p) {
    const auto windows = double(p.grid.windows(p.axes[0]));
    return copy_time((double(grad.numel()) + windows * double(padded)) * size) +
           weight_gradient_time(O, p.steps[0].K, windows, p.steps[0].offsets.size(), size);
  });
  if (!plan || (!forced && plan->time > simdgroup_weight_time(macs, source.size(1), positions, size))) return false;
  const PixelGrid& grid = plan->grid;
  const Steps& steps = plan->steps[0];
  // The output gradient of every window, or zero for windows that start in the padding. If such a window contains an
  // infinity or a NaN, all taps of the weight gradient become NaN.
  PixelGrid windows{grid.images, O, padded, {}, {1, 1, 1}, {grid.pitch[0], grid.pitch[1], grid.pitch[2]}, 0, {}};
  windows.plane = grid.images * grid.pitch[0] * grid.pitch[1] * grid.pitch[2];
  const int64_t P = grid.windows(plan->axes[0]), row = grid.padded_channels;
  const Tensor pixels = pack_pixels(source, grid), dy = pack_pixels(grad, windows);
  const Tensor a = dy.as_strided({O, P}, {1, padded});
  const int64_t count = int64_t(steps.offsets.size());
  const bool same_layout = out.numel() == O * steps.K && steps.K == out.size(1);  // a single tap
  const Tensor sums = same_layout ? out.view({O, 1, steps.K})
                                  : at::empty({O, count, steps.K}, out.options().memory_format(std::nullopt));
  for (int64_t first = 0, end; first < count; first = end) {
    // Batch consecutive steps whose offsets are evenly spaced.
    const int64_t step = first + 1 < count ? steps.offsets[size_t(first) + 1] - steps.offsets[size_t(first)] : 0;
    end = first + 1;
    while (step > 0 && end < count && steps.offsets[size_t(end)] - steps.offsets[size_t(end) - 1] == step) ++end;
    const int64_t start = pixels.storage_offset() + steps.offsets[size_t(first)] * row;
    const Tensor b = pixels.as_strided({end - first, P, steps.K},
                                       {std::max<int64_t>(step, 0) * row, grid.stride[2] * row, 1}, start);
    gemm(sums.narrow(1, first, end - first).transpose(0, 1), a.expand({end - first, O, P}), b);
  }
  if (!same_layout) out.copy_(weight_from_steps(sums, out.sizes(), grid));
  return true;
}

Tensor pack_shared_gradient(const Tensor& grad) {
  const Tensor t = with_three_dims(grad);
  const int64_t channels = t.size(1);
  if (rows_of_pixels(t).defined() || rows_of_channels(t).defined() || channels % vector_elements(t) != 0) return grad;
  const PixelGrid grid{
      t.size(0), channels, channels, {}, {1, 1, 1}, {t.size(2), t.size(3), t.size(4)}, t.numel() / channels, {}};
  auto size = grad.movedim(1, -1).sizes().vec();
  return pack_pixels(t, grid).view(size).movedim(-1, 1);
}

}  // namespace mpsx::ops
