// Convolutions: torch sends any device it does not know to the "overrideable" pair, which has no CPU kernel of its own.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "conv/params.h"
#include "ops/conv/columns.h"
#include "ops/tiles.h"
#include "vendor/cpu/convolution.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalTensor = std::optional<Tensor>;

constexpr uint32_t kLine = 256;      // as kLine of the kernels
constexpr int64_t kFewChannels = 4;  // in a group, for which a tile would be nearly empty

struct Geometry {
  IntArrayRef stride, padding, dilation;
  int64_t groups;
};

const KernelSet& line_kernels(bool backward) {
  static const KernelSet forward("conv_depthwise"), gradient("conv_depthwise_backward");
  return backward ? gradient : forward;
}

bool has_kernel(const Tensor& input, const Tensor& weight) {
  return has_float_kernel(input) && has_float_kernel(weight) && input.scalar_type() == weight.scalar_type() &&
         input.dim() >= 3 && input.dim() <= 5;
}

// The window of `weight`'s size that reads `source` to compute `positions`.
ConvWindow window_of(const Tensor& source, IntArrayRef positions, const Tensor& weight, const Geometry& g) {
  ConvWindow w;
  const int64_t spatial = source.dim() - 2, missing = 3 - spatial;
  for (int64_t d = 0; d < 3; ++d) {
    const bool is = d >= missing;
    const size_t i = is ? size_t(d - missing) : 0;
    const auto size_at = [&](int64_t size) { return is ? uint32_t(size) : 1u; };
    w.source[d] = size_at(source.size(int64_t(i) + 2));
    w.positions[d] = size_at(positions[i + 2]);
    w.taps[d] = size_at(weight.size(int64_t(i) + 2));
    w.stride[d] = is ? int32_t(g.stride[i]) : 1;
    w.padding[d] = is ? int32_t(g.padding[i]) : 0;
    w.dilation[d] = is ? int32_t(g.dilation[i]) : 1;
  }
  return w;
}

void set_source(ConvParams& p, const Tensor& source) {
  p.image_stride = source.stride(0);
  p.channel_stride = source.stride(1);
  for (int64_t d = 0, missing = 5 - source.dim(); d < 3; ++d)
    p.source_stride[d] = d >= missing ? source.stride(2 + d - missing) : 0;
  p.images = uint32_t(source.size(0));
}
void set_positions(ConvParams& p) {
  for (int d = 0; d < 3; ++d) p.by[d] = divisor_of(p.window.positions[d]);
  p.image_positions = volume(p.window.positions);
  p.by_image = divisor_of(p.image_positions);
}

int64_t taps_of(const Tensor& weight) { return c10::multiply_integers(weight.sizes().slice(2)); }

// Columns of one line that threads read together; a kernel of one tap reads each element once anyway.
Tensor in_lines(const Tensor& source, const Tensor& weight) {
  return source.stride(-1) == 1 || taps_of(weight) == 1 ? source : source.contiguous();
}

void check_sizes(const Tensor& t, int64_t columns) {
  TORCH_CHECK(columns <= int64_t(INT32_MAX), "convolution: expected below 2^31 positions, got ", columns,
              " for a tensor of size ", t.sizes());
}

// Whether a window is a place of its own, and places lie evenly in memory.
bool is_pointwise(const ConvParams& p) {
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

// By tiles: the product of the weight, [groups, rows, taps, channels], and the patches of each group.
void apply_tiles(const Tensor& out, const Tensor& source_given, const Tensor& weight_given, const Tensor& bias,
                 ConvParams p, uint32_t groups, bool backward) {
  const size_t size = out.element_size();
  ConvWindow& w = p.window;
  // Backward by steps of one is forward with the taps the other way round.
  for (int d = 0; backward && d < 3; ++d) w.padding[d] = -w.padding[d], w.dilation[d] = -w.dilation[d];
  const bool pointwise =
      is_pointwise(p) && p.channels * p.channel_stride * int64_t(size) % 16 == 0 &&
      reads_wide(source_given.const_data_ptr(), size, p.source_stride[2], p.channel_stride, p.image_stride);
  const Tensor source = pointwise ? source_given : channels_last(source_given, groups);
  set_source(p, source);
  p.padded = pointwise ? p.channels : uint32_t(source.size(1) / groups);
  const Tensor weight = padded_copy(weight_given, p.padded);
  p.depth = uint32_t(weight.size(2)) * p.padded;
  p.matrix = {p.depth, 0, int64_t(p.rows) * p.depth, 0};
  p.wide_matrix = reads_wide(weight.const_data_ptr(), size, p.depth, 1);
  p.run = uint32_t(16 / size);
  if (pointwise) p.columns /= p.images;
  p.per_group = pointwise ? p.images : 1;
  const uint64_t batch = uint64_t(groups) * p.per_group;
  const bool last = out.stride(1) == 1;
  const uint64_t down = last ? p.columns : p.rows, across = last ? p.rows : p.columns;
  const bool large = takes_large_tiles(down, across, batch, size);
  const Split split = large ? Split{1, p.depth} : split_of(tile_threads(down, across, batch), p.depth);
  p.splits = split.parts;
  p.split_depth = split.depth;
  static const TileKernels kernels[2][2] = {  // [pointwise][last]
      {{KernelSet("conv"), KernelSet("conv_large")}, {KernelSet("conv_last"), KernelSet("conv_last_large")}},
      {{KernelSet("conv_pointwise"), KernelSet("conv_pointwise_large")},
       {KernelSet("conv_pointwise_last"), KernelSet("conv_pointwise_last_large")}}};
  const auto bias_data = [&] { return p.has_bias ? bias.const_data_ptr() : nullptr; };
  const Tensor parts = p.splits > 1 ? at::empty({int64_t(batch) * p.splits, int64_t(down), int64_t(across)},
                                                out.options().dtype(at::kFloat).memory_format(std::nullopt))
                                    : Tensor();
  Launch l(kernels[pointwise][last].get(out, large));
  l.pointer(out.mutable_data_ptr()).pointer(source.const_data_ptr()).pointer(weight.const_data_ptr());
  l.pointer(bias_data()).bytes(p).pointer(mutable_data_or_null(parts));
  Tensor taps;
  if (!pointwise) {
    static const KernelSet table("conv_taps");
    const uint32_t runs = p.depth / p.run;
    taps = at::empty({int64_t(runs), int64_t(sizeof(ConvTapOffset))},
                     out.options().dtype(at::kByte).memory_format(std::nullopt));
    Launch first(table.get());
    first.pointer(taps.mutable_data_ptr()).bytes(p).threads(runs).run();
    l.pointer(taps.const_data_ptr());
  }
  over_tiles(l, down, across, batch * p.splits, p.split_depth, large).run();
  if (p.splits == 1) return;
  static const KernelSet join("conv_join"), join_last("conv_join_last");
  Launch end((last ? join_last : join).get(tag_of(out)));
  end.pointer(out.mutable_data_ptr()).pointer(bias_data()).bytes(p).pointer(parts.const_data_ptr());
  end.threads(across, down, batch).work(p.splits).run();
}

// Slides a window of the weight [O, C / groups, ...] over `source`, or (backward) takes the gradient of that.
Tensor apply(IntArrayRef size, at::MemoryFormat format, const Tensor& source_given, const Tensor& weight_given,
             const OptionalTensor& bias, const Geometry& g, bool backward) {
  const bool by_tiles = g.groups == 1 || std::max(size[1], source_given.size(1)) / g.groups > kFewChannels;
  const bool by_columns = by_tiles && backward && std::any_of(g.stride.begin(), g.stride.end(), [](int64_t s) {
    return s != 1;
  });
  const auto empty = [&](at::MemoryFormat as) {
    return at::empty(size, source_given.options().memory_format(as));
  };
  if (format != at::MemoryFormat::Contiguous && (!by_tiles || by_columns)) {  // these write places side by side
    const Tensor result = apply(size, at::MemoryFormat::Contiguous, source_given, weight_given, bias, g, backward);
    return empty(format).copy_(result);
  }
  const Tensor out = empty(format);
  if (out.numel() == 0) return out;
  const Tensor source = by_tiles ? source_given : in_lines(source_given, weight_given);
  const int64_t rows = out.size(1) / g.groups, channels = source.size(1) / g.groups;
  // Not the strides of the weight, which mean nothing where it has one channel.
  const int64_t taps = taps_of(weight_given), weight_row = weight_given.size(1) * taps;
  ConvParams p{};
  p.window = window_of(source, out.sizes(), weight_given, g);
  set_source(p, source);
  p.out_image = out.stride(0);
  p.out_channel = out.stride(1);
  p.out_place = out.stride(-1);
  p.channels = uint32_t(channels);
  p.rows = uint32_t(rows);
  const uint32_t positions = volume(p.window.positions);
  check_sizes(out, out.size(0) * int64_t(positions));
  p.columns = uint32_t(out.size(0)) * positions;
  set_positions(p);
  p.depth = uint32_t(channels * taps);
  p.has_bias = bias && bias->defined();
  const Tensor b = p.has_bias ? bias->contiguous() : Tensor();
  if (by_columns) {
    apply_columns(out, source, weight_given, b, p, uint32_t(g.groups));
    return out;
  }
  if (by_tiles) {
    const Tensor by_group =
        weight_given.reshape({g.groups, weight_given.size(0) / g.groups, weight_given.size(1), taps});
    const Tensor weight = (backward ? by_group.transpose(1, 2) : by_group).transpose(2, 3);
    apply_tiles(out, source, weight, b, p, uint32_t(g.groups), backward);
    return out;
  }
  const Tensor weight = weight_given.contiguous();
  // The matrix is [rows, channels * taps] of the group's part of the weight.
  p.matrix.row_stride = backward ? taps : weight_row;
  p.matrix.outer_stride = backward ? weight_row : taps;
  p.matrix.group_stride = weight.size(0) / g.groups * weight_row;
  p.matrix.inner = uint32_t(taps);
  Launch l(line_kernels(backward).get(tag_of(out)));
  l.pointer(out.mutable_data_ptr()).pointer(source.const_data_ptr()).pointer(weight.const_data_ptr());
  l.pointer(p.has_bias ? b.const_data_ptr() : nullptr).bytes(p);
  const uint32_t width = p.window.positions[2], blocks = (width + kLine - 1) / kLine;
  l.groups({p.columns / width * blocks, uint32_t(out.size(1))}, std::min(kLine, runtime::threads_for_row(width * 4)));
  l.work(uint64_t(std::min(width, kLine)) * (p.depth + 1)).run();
  return out;
}

// By tiles: the product of the result's gradient and the patches, over all places.
void weight_by_tiles(const Tensor& out, const Tensor& source_given, const Tensor& grad_given, ConvParams p,
                     uint32_t groups) {
  const size_t size = out.element_size();
  const uint32_t places = volume(p.window.positions);
  const bool pointwise =
      is_pointwise(p) && p.source_stride[2] == 1 && grad_given.is_contiguous() &&
      reads_wide(source_given.const_data_ptr(), size, p.channel_stride, 1, p.image_stride) &&
      reads_wide(grad_given.const_data_ptr(), size, places, 1);
  const Tensor source = pointwise ? source_given : channels_last(source_given, groups);
  const Tensor grad = pointwise ? grad_given : channels_last(grad_given, groups);
  set_source(p, source);
  p.padded = pointwise ? p.channels : uint32_t(source.size(1) / groups);
  if (pointwise) {
    for (int d = 0; d < 3; ++d) p.window.positions[d] = d == 2 ? places : 1;
    p.matrix = {places, grad.size(1) * places, int64_t(p.rows) * places, 0};
  } else {
    p.matrix = {1, grad.size(1), grad.size(1) / groups, 0};
  }
  set_positions(p);
  p.columns = p.padded * volume(p.window.taps);
  const bool large = takes_large_tiles(p.rows, p.columns, groups * 8, size);  // the depth is split
  const uint32_t tile = large ? kLargeTile : kTileRows, threads = large ? kLargeTileThreads : kTileThreads;
  const Split split = split_of(tiles_of(p.rows, p.columns, groups, tile) * threads, p.depth);
  p.splits = split.parts;
  p.split_depth = split.depth;
  static const TileKernels plain{KernelSet("conv_weight"), KernelSet("conv_weight_large")},
      point{KernelSet("conv_weight_pointwise"), KernelSet("conv_weight_pointwise_large")};
  Launch l((pointwise ? point : plain).get(out, large));
  l.pointer(out.mutable_data_ptr()).pointer(source.const_data_ptr()).pointer(grad.const_data_ptr()).bytes(p);
  const int64_t elements = out.numel() / groups;
  const Tensor parts = p.splits > 1 ? at::empty({groups * p.splits, elements},
                                                out.options().dtype(at::kFloat).memory_format(std::nullopt))
                                    : Tensor();
  l.pointer(p.splits > 1 ? parts.mutable_data_ptr() : nullptr);
  over_tiles(l, p.rows, p.columns, uint64_t(groups) * p.splits, p.split_depth, large).run();
  if (p.splits > 1) {
    static const KernelSet join("conv_weight_join");
    Launch last(join.get(tag_of(out)));
    last.pointer(out.mutable_data_ptr()).pointer(parts.const_data_ptr()).bytes(p);
    last.threads(uint64_t(elements), groups).work(p.splits).run();
  }
}

// The gradient of a weight [O, C / groups, ...] that took `source` to what `grad` is the gradient of.
Tensor weight_gradient(const Tensor& source_given, const Tensor& grad_given, const Tensor& weight, const Geometry& g) {
  if (weight.numel() == 0 || grad_given.numel() == 0) return at::zeros(weight.sizes(), weight.options());
  const Tensor out = at::empty(weight.sizes(), weight.options().memory_format(at::MemoryFormat::Contiguous));
  const int64_t rows = weight.size(0) / g.groups, positions = c10::multiply_integers(grad_given.sizes().slice(2));
  const bool few = g.groups > 1 && std::max<int64_t>(rows, weight.size(1)) <= kFewChannels;
  const Tensor source = few ? in_lines(source_given, weight) : source_given;
  ConvParams p{};
  p.window = window_of(source, grad_given.sizes(), weight, g);
  set_source(p, source);
  check_sizes(grad_given, grad_given.size(0) * positions);
  p.channels = uint32_t(weight.size(1));
  p.rows = uint32_t(rows);
  p.depth = uint32_t(grad_given.size(0) * positions);
  if (!few) {
    weight_by_tiles(out, source, grad_given, p, uint32_t(g.groups));
    return out;
  }
  const Tensor grad = grad_given.contiguous();
  p.matrix = {positions, grad.size(1) * positions, rows * positions, uint32_t(positions)};
  p.columns = p.channels * volume(p.window.taps);
  static const KernelSet lines("conv_depthwise_weight");
  Launch l(lines.get(tag_of(out)));
  l.pointer(out.mutable_data_ptr()).pointer(source.const_data_ptr()).pointer(grad.const_data_ptr()).bytes(p);
  l.groups({p.columns, uint32_t(weight.size(0))}, runtime::threads_for_row(p.window.positions[2] * 4));
  l.work(p.depth).run();
  return out;
}

// Channels last if the input or the weight is, as in oneDNN; python/mpsx/device/module.py repeats it for fake tensors.
at::MemoryFormat result_format(const Tensor& input, const Tensor& weight) {
  if (input.dim() == 4)
    for (const Tensor* t : {&input, &weight})
      if (t->suggest_memory_format() == at::MemoryFormat::ChannelsLast) return at::MemoryFormat::ChannelsLast;
  if (input.dim() == 5)
    for (const Tensor* t : {&input, &weight})
      if (t->suggest_memory_format() == at::MemoryFormat::ChannelsLast3d) return at::MemoryFormat::ChannelsLast3d;
  return at::MemoryFormat::Contiguous;
}

Tensor convolve(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                int64_t groups) {
  if (vendor::preferred())
    return vendor::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  if (!has_kernel(input, weight))
    return fall_back<Tensor>("convolution", input, weight, bias, stride, padding, dilation, transposed, output_padding,
                             groups);
  TORCH_CHECK(!bias || !bias->defined() || (bias->scalar_type() == input.scalar_type() && is_plain(*bias)),
              "convolution: expected a bias of type ", input.scalar_type(), " on ", input.device(), ", got ",
              bias->scalar_type(), " on ", bias->device());
  const auto size = transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding,
                                                             stride, dilation, groups)
                               : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  const Geometry g{stride, padding, dilation, groups};
  return apply(size, result_format(input, weight), input, weight, bias, g, transposed);
}

Tensor forward(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
               IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
  return convolve(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
      .contiguous(result_format(input, weight));
}

std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& grad_given, const Tensor& input, const Tensor& weight,
                                             IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                             bool transposed, IntArrayRef output_padding, int64_t groups,
                                             std::array<bool, 3> mask) {
  const std::array<int64_t, 1> bias_size{transposed ? weight.size(1) * groups : weight.size(0)};
  const auto bias_sizes = mask[2] ? at::OptionalIntArrayRef(bias_size) : std::nullopt;
  if (vendor::preferred())
    return vendor::convolution_backward(grad_given, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                        output_padding, groups, mask);
  if (!has_kernel(input, weight) || !has_kernel(grad_given, weight))
    return fall_back<std::tuple<Tensor, Tensor, Tensor>>("convolution_backward", grad_given, input, weight, bias_sizes,
                                                         stride, padding, dilation, transposed, output_padding, groups,
                                                         mask);
  const Geometry g{stride, padding, dilation, groups};
  // Both gradients read this one with its channels last.
  const bool shared = mask[0] && mask[1] && grad_given.dim() == 4 && taps_of(weight) > 1 && groups == 1;
  const Tensor grad = shared ? grad_given.contiguous(at::MemoryFormat::ChannelsLast) : grad_given;
  Tensor grad_input, grad_weight, grad_bias;
  const at::MemoryFormat format = result_format(input, weight);
  if (mask[0]) grad_input = apply(input.sizes(), format, grad, weight, std::nullopt, g, !transposed);
  if (mask[1])
    grad_weight = transposed ? weight_gradient(grad, input, weight, g) : weight_gradient(input, grad, weight, g);
  if (mask[2]) {
    std::vector<int64_t> others{0};
    for (int64_t d = 2; d < grad.dim(); ++d) others.push_back(d);
    grad_bias = at::sum(grad, others);
  }
  return {grad_input, grad_weight, grad_bias};
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                            IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                            bool transposed, IntArrayRef output_padding, int64_t groups,
                                            std::array<bool, 3> mask) {
  auto [grad_input, grad_weight, grad_bias] =
      gradients(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, mask);
  for (Tensor* t : {&grad_input, &grad_weight})
    if (t->defined()) *t = t->contiguous(result_format(input, weight));
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", &forward);
  m.impl("convolution_backward_overrideable", &backward);
}

}  // namespace mpsx::ops
