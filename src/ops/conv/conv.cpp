// Convolutions. On out-of-tree devices, PyTorch calls the "overrideable" operators, which have no CPU kernel.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "conv/params.h"
#include "ops/conv/col2im.h"
#include "ops/conv/implicit_gemm.h"
#include "ops/conv/narrow.h"
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

// Makes rows contiguous, so that loads coalesce. For a 1x1 kernel this does not pay off, because each element is read
// only once.
Tensor contiguous_rows(const Tensor& source, const Tensor& weight) {
  return source.stride(-1) == 1 || spatial_size(weight) == 1 ? source : source.contiguous();
}

void check_sizes(const Tensor& t, int64_t columns) {
  TORCH_CHECK(columns <= int64_t(INT32_MAX), "convolution: expected below 2^31 positions, got ", columns,
              " for a tensor of size ", t.sizes());
}

// Convolves `source` with a weight of shape [O, C / groups, ...]. If `backward` is true, computes the transposed
// convolution instead, which is the input gradient of the convolution.
Tensor apply(IntArrayRef size, at::MemoryFormat format, const Tensor& source_given, const Tensor& weight_given,
             const OptionalTensor& bias, const Geometry& g, bool backward, PackedPixels& packed) {
  const Tensor out = at::empty(size, source_given.options().memory_format(format));
  if (out.numel() == 0) return out;
  const Tensor b = bias && bias->defined() ? bias->contiguous() : Tensor();
  const bool use_gemm = !prefers_direct(g.groups, std::max(size[1], source_given.size(1)) / g.groups);
  if (const bool is_narrow = has_narrow_kernel(source_given, size[1], g.groups);
      use_gemm && (is_narrow || uses_tensor_convolution(source_given))) {
    const ConvWindow window = window_of(source_given, out.sizes(), weight_given, g);
    const auto narrow = is_narrow ? plan_narrow(out, source_given, weight_given, window, backward) : std::nullopt;
    const double limit = narrow ? narrow->time : std::numeric_limits<double>::infinity();
    if (uses_tensor_convolution(source_given) &&
        tensor_convolution(out, source_given, weight_given, b, window, g.groups, backward, limit, packed))
      return out;
    if (narrow && narrow->time < narrow->gemm_time) {
      launch_narrow(*narrow, out, source_given, weight_given, b);
      return out;
    }
  }
  const bool use_col2im =
      use_gemm && backward && std::any_of(g.stride.begin(), g.stride.end(), [](int64_t s) { return s != 1; });
  // The direct and col2im kernels write contiguous rows.
  if (format != at::MemoryFormat::Contiguous && (!use_gemm || use_col2im)) {
    return out.copy_(apply(size, at::MemoryFormat::Contiguous, source_given, weight_given, bias, g, backward, packed));
  }
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
  p.has_bias = b.defined();
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

// Computes the gradient of a weight of shape [O, C / groups, ...] from the output gradient and the input `source`. On
// the tensor tier, it has the given format.
Tensor weight_gradient(const Tensor& source_given, const Tensor& grad_given, const Tensor& weight, const Geometry& g,
                       at::MemoryFormat format, const PackedPixels& packed) {
  if (weight.numel() == 0 || grad_given.numel() == 0) return at::zeros(weight.sizes(), weight.options());
  const auto empty = [&](at::MemoryFormat as) { return at::empty(weight.sizes(), weight.options().memory_format(as)); };
  const int64_t M = weight.size(0) / g.groups, positions = spatial_size(grad_given);
  const bool direct = prefers_direct(g.groups, std::max<int64_t>(M, weight.size(1)));
  const ConvWindow window = window_of(source_given, grad_given.sizes(), weight, g);
  if (!direct && uses_tensor_convolution(source_given))
    if (const Tensor out = empty(format);
        tensor_weight_gradient(out, source_given, grad_given, window, g.groups, packed))
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
  PackedPixels packed;
  return apply(size, result_format(input, weight), input, weight, bias, g, transposed, packed);
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
  // taps, the tensor tier packs it itself.
  Tensor grad = grad_given;
  if (mask[0] && mask[1] && groups == 1) {
    if (!uses_tensor_convolution(grad) && grad.dim() == 4 && spatial_size(weight) > 1)
      grad = grad.contiguous(at::MemoryFormat::ChannelsLast);
    else if (uses_tensor_convolution(grad) && !transposed && spatial_size(weight) == 1)
      grad = pack_shared_gradient(grad);
  }
  Tensor grad_input, grad_weight, grad_bias;
  const at::MemoryFormat format = result_format(input, weight);
  PackedPixels packed;
  if (mask[0]) grad_input = apply(input.sizes(), format, grad, weight, std::nullopt, g, !transposed, packed);
  if (mask[1])
    grad_weight = weight_gradient(transposed ? grad : input, transposed ? input : grad, weight, g, format, packed);
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
