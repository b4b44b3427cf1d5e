// Convolutions. On out-of-tree devices, PyTorch calls the "overrideable" operators, which have no CPU kernel.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "conv/params.h"
#include "ops/conv/col2im.h"
#include "ops/conv/tensor_conv.h"
#include "ops/gemm.h"
#include "ops/operator.h"
#include "vendor/cpu/convolution.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalTensor = std::optional<Tensor>;

constexpr uint32_t kColumnOutputs = 4, kTapBlock = 4, kRowOutputs = 256;  // must match depthwise.metal and its overlay
// Returns whether to convolve groups directly, instead of as GEMMs.
bool prefers_direct(int64_t groups, int64_t channels) {
  return groups > 1 && double(channels) <= runtime::tuning().conv_direct_channels;
}

struct Geometry {
  IntArrayRef stride, padding, dilation;
  int64_t groups;
};

// Launches the direct convolution of groups with few channels.
void launch_depthwise(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias, ConvParams p,
                      bool backward) {
  static const KernelSet forward("conv_depthwise"), gradient("conv_depthwise_backward");
  const uint32_t* const size = p.window.positions;
  // A thread computes a column of outputs, or part of a row in the overlay.
  const uint32_t rows = runtime::elements_per_thread(kColumnOutputs, 1);
  const uint32_t columns = runtime::elements_per_thread(1, kRowOutputs);
  const auto row_blocks = uint32_t(ceil_div(size[1], rows)), column_blocks = uint32_t(ceil_div(size[2], columns));
  p.by[1] = make_fast_divmod(row_blocks);
  p.by[2] = make_fast_divmod(column_blocks);
  for (int d = 0; d < 3; ++d) p.by_stride[d] = make_fast_divmod(uint32_t(p.window.stride[d]));
  Launch l((backward ? gradient : forward).get(tag_of(out)));
  l.outputs(out).inputs(source, weight).pointer(p.has_bias ? bias.const_data_ptr() : nullptr).bytes(p);
  l.threads(uint64_t(out.size(1)) * size[0] * row_blocks * column_blocks, p.images);
  l.work(uint64_t(rows) * std::min(columns, size[2]) * (p.K + 1));
  l.run();
}

bool has_kernel(const Tensor& input, const Tensor& weight) {
  return has_float_kernel(input) && has_float_kernel(weight) && input.scalar_type() == weight.scalar_type() &&
         input.dim() >= 3 && input.dim() <= 5;
}

// Returns the window that slides over `source` to produce a tensor of size `positions`. The window's taps are the
// weight's spatial dimensions.
ConvWindow window_of(const Tensor& source, IntArrayRef positions, const Tensor& weight, const Geometry& g) {
  ConvWindow w;
  const int64_t spatial = source.dim() - 2, missing = 3 - spatial;
  for (int64_t d = 0; d < 3; ++d) {
    const bool exists = d >= missing;
    const size_t i = exists ? size_t(d - missing) : 0;
    const auto size_at = [&](int64_t size) { return exists ? uint32_t(size) : 1u; };
    w.source[d] = size_at(source.size(int64_t(i) + 2));
    w.positions[d] = size_at(positions[i + 2]);
    w.taps[d] = size_at(weight.size(int64_t(i) + 2));
    w.stride[d] = exists ? int32_t(g.stride[i]) : 1;
    w.padding[d] = exists ? int32_t(g.padding[i]) : 0;
    w.dilation[d] = exists ? int32_t(g.dilation[i]) : 1;
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
  for (int d = 0; d < 3; ++d) p.by[d] = make_fast_divmod(p.window.positions[d]);
  p.image_positions = volume(p.window.positions);
  p.by_image = make_fast_divmod(p.image_positions);
}

// Makes rows contiguous, so that loads coalesce. For a 1x1 kernel this does not pay off, because each element is read
// only once.
Tensor contiguous_rows(const Tensor& source, const Tensor& weight) {
  return source.stride(-1) == 1 || spatial_size(weight) == 1 ? source : source.contiguous();
}

void check_sizes(const Tensor& t, int64_t columns) {
  TORCH_CHECK(columns <= int64_t(INT32_MAX), "convolution: expected below 2^31 positions, got ", columns,
              " for a tensor of size ", t.sizes());
}

// Returns whether the kernel is 1x1 with stride 1 and the positions are evenly strided.
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

// For each group, multiplies the weight, of shape [groups, M, taps, channels], by im2col(source) in an implicit GEMM.
void launch_implicit_gemm(const Tensor& out, const Tensor& source_given, const Tensor& weight_given, const Tensor& bias,
                          ConvParams p, uint32_t groups, bool backward) {
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

// Convolves `source` with a weight of shape [O, C / groups, ...]. If `backward` is true, computes the transposed
// convolution instead, which is the input gradient of the convolution.
Tensor apply(IntArrayRef size, at::MemoryFormat format, const Tensor& source_given, const Tensor& weight_given,
             const OptionalTensor& bias, const Geometry& g, bool backward) {
  const auto empty = [&](at::MemoryFormat as) { return at::empty(size, source_given.options().memory_format(as)); };
  const bool use_gemm = !prefers_direct(g.groups, std::max(size[1], source_given.size(1)) / g.groups);
  if (use_gemm && uses_tensor_convolution(source_given)) {
    const Tensor out = empty(format), b = bias && bias->defined() ? bias->contiguous() : Tensor();
    const ConvWindow window = window_of(source_given, out.sizes(), weight_given, g);
    if (out.numel() == 0 || tensor_convolution(out, source_given, weight_given, b, window, g.groups, backward))
      return out;
  }
  const bool use_col2im =
      use_gemm && backward && std::any_of(g.stride.begin(), g.stride.end(), [](int64_t s) { return s != 1; });
  // The direct and col2im kernels write contiguous rows.
  if (format != at::MemoryFormat::Contiguous && (!use_gemm || use_col2im)) {
    const Tensor result = apply(size, at::MemoryFormat::Contiguous, source_given, weight_given, bias, g, backward);
    return empty(format).copy_(result);
  }
  const Tensor out = empty(format);
  if (out.numel() == 0) return out;
  const Tensor source = use_gemm ? source_given : contiguous_rows(source_given, weight_given);
  const int64_t M = out.size(1) / g.groups, channels = source.size(1) / g.groups;
  // Do not use the weight's strides, because a dimension of size 1 may have any stride.
  const int64_t taps = spatial_size(weight_given), weight_row = weight_given.size(1) * taps;
  ConvParams p{};
  p.window = window_of(source, out.sizes(), weight_given, g);
  set_source(p, source);
  p.out_image = out.stride(0);
  p.out_channel = out.stride(1);
  p.out_position = out.stride(-1);
  p.channels = uint32_t(channels);
  p.M = uint32_t(M);
  const uint32_t positions = volume(p.window.positions);
  check_sizes(out, out.size(0) * int64_t(positions));
  p.N = uint32_t(out.size(0)) * positions;
  set_positions(p);
  p.K = uint32_t(channels * taps);
  p.has_bias = bias && bias->defined();
  const Tensor b = p.has_bias ? bias->contiguous() : Tensor();
  if (use_col2im) {
    launch_col2im(out, source, weight_given, b, p, uint32_t(g.groups));
    return out;
  }
  if (use_gemm) {
    const Tensor by_group =
        weight_given.reshape({g.groups, weight_given.size(0) / g.groups, weight_given.size(1), taps});
    const Tensor weight = (backward ? by_group.transpose(1, 2) : by_group).transpose(2, 3);
    launch_implicit_gemm(out, source, weight, b, p, uint32_t(g.groups), backward);
    return out;
  }
  const Tensor weight = weight_given.contiguous();
  // The matrix is one group's part of the weight, of shape [M, channels * taps].
  p.matrix.row_stride = backward ? taps : weight_row;
  p.matrix.outer_stride = backward ? weight_row : taps;
  p.matrix.group_stride = weight.size(0) / g.groups * weight_row;
  p.matrix.inner = uint32_t(taps);
  launch_depthwise(out, source, weight, b, p, backward);
  return out;
}

// Launches an implicit GEMM of the output gradient and im2col(source)^T, where K covers the positions of all images.
void launch_weight_gemm(const Tensor& out, const Tensor& source_given, const Tensor& grad_given, ConvParams p,
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

// Computes the gradient of a weight of shape [O, C / groups, ...] from the output gradient and the input `source`. On
// the tensor tier, it has the given format.
Tensor weight_gradient(const Tensor& source_given, const Tensor& grad_given, const Tensor& weight, const Geometry& g,
                       at::MemoryFormat format) {
  if (weight.numel() == 0 || grad_given.numel() == 0) return at::zeros(weight.sizes(), weight.options());
  const auto empty = [&](at::MemoryFormat as) { return at::empty(weight.sizes(), weight.options().memory_format(as)); };
  const int64_t M = weight.size(0) / g.groups, positions = spatial_size(grad_given);
  const bool direct = prefers_direct(g.groups, std::max<int64_t>(M, weight.size(1)));
  const ConvWindow window = window_of(source_given, grad_given.sizes(), weight, g);
  if (!direct && uses_tensor_convolution(source_given))
    if (const Tensor out = empty(format); tensor_weight_gradient(out, source_given, grad_given, window, g.groups))
      return out;
  const Tensor out = empty(at::MemoryFormat::Contiguous);
  const Tensor source = direct ? contiguous_rows(source_given, weight) : source_given;
  ConvParams p{};
  p.window = window;
  set_source(p, source);
  check_sizes(grad_given, grad_given.size(0) * positions);
  p.channels = uint32_t(weight.size(1));
  p.M = uint32_t(M);
  p.K = uint32_t(grad_given.size(0) * positions);
  if (!direct) {
    launch_weight_gemm(out, source, grad_given, p, uint32_t(g.groups));
    return out;
  }
  const Tensor grad = grad_given.contiguous();
  p.matrix = {positions, grad.size(1) * positions, M * positions, uint32_t(positions)};
  set_positions(p);
  p.N = p.channels * volume(p.window.taps);
  static const KernelSet kernels("conv_depthwise_weight");
  Launch l(kernels.get(tag_of(out)));
  l.outputs(out).inputs(source, grad).bytes(p);
  const uint32_t width = p.window.taps[2], blocks = uint32_t(ceil_div(width, kTapBlock));
  l.groups({p.N / width * blocks, uint32_t(weight.size(0))}, 512);
  l.work(uint64_t(p.K) * std::min(width, kTapBlock)).run();
  return out;
}

// Like oneDNN, returns channels last if the input or the weight is channels last. Keep this in sync with
// python/mpsx/device/module.py, which does the same for fake tensors.
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
  // Both gradients read the output gradient in channels-last format, so convert it only once. If there are several
  // taps, the tensor tier packs it itself, with different padding for each gradient.
  Tensor grad = grad_given;
  if (mask[0] && mask[1] && groups == 1) {
    if (!uses_tensor_convolution(grad) && grad.dim() == 4 && spatial_size(weight) > 1)
      grad = grad.contiguous(at::MemoryFormat::ChannelsLast);
    else if (uses_tensor_convolution(grad) && !transposed && spatial_size(weight) == 1)
      grad = pack_shared_gradient(grad);
  }
  Tensor grad_input, grad_weight, grad_bias;
  const at::MemoryFormat format = result_format(input, weight);
  if (mask[0]) grad_input = apply(input.sizes(), format, grad, weight, std::nullopt, g, !transposed);
  if (mask[1]) grad_weight = weight_gradient(transposed ? grad : input, transposed ? input : grad, weight, g, format);
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
  impl(m, "convolution_overrideable", &forward);
  impl(m, "convolution_backward_overrideable", &backward);
}

}  // namespace mpsx::ops
