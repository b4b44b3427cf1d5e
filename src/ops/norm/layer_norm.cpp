// Launches the kernels in metal/norm/layer_norm.metal.
#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "ops/norm/row_norm.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor or_none(const OptionalTensor& t) { return t.value_or(Tensor()); }

// Returns whether kernels support these parameters. Both must have the type of the input, or both must be float.
bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!is_plain(x) || !is_float_tag(tag_of(x))) return false;
  for (const Tensor& t : {weight, bias})
    if (t.defined() && (!is_plain(t) || !parameters_fit(x.scalar_type(), t.scalar_type()))) return false;
  return !weight.defined() || !bias.defined() || weight.scalar_type() == bias.scalar_type();
}
at::ScalarType parameter_type(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return weight.defined() ? weight.scalar_type() : bias.defined() ? bias.scalar_type() : x.scalar_type();
}

std::optional<Three> layer_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight_given,
                                const OptionalTensor& bias_given, double eps) {
  static const KernelSet kernels("layer_norm");
  const Tensor weight_or_none = or_none(weight_given), bias_or_none = or_none(bias_given);
  const auto [rows, size] = at::native::_check_layer_norm_inputs(input, shape, weight_or_none, bias_or_none);
  if (!fits(input, weight_or_none, bias_or_none)) return std::nullopt;
  const Tensor x = input.contiguous(), weight = contiguous_or_none(weight_or_none);
  const Tensor bias = contiguous_or_none(bias_or_none);
  const at::ScalarType type = parameter_type(x, weight, bias);
  c10::SmallVector<int64_t, 6> stats(input.sizes().begin(), input.sizes().end());
  std::fill(stats.end() - std::ptrdiff_t(shape.size()), stats.end(), 1);
  const Tensor y = at::empty(x.sizes(), x.options());
  const Tensor mean = at::empty(stats, x.options().dtype(type)), rstd = at::empty(stats, x.options().dtype(type));
  if (rows == 0) return Three(y, mean, rstd);
  if (size == 0) return Three(y, mean.zero_(), rstd.fill_(NAN));
  RowNormParams p = row_norm_params(rows, size, eps);
  p.has_weight = weight.defined(), p.has_bias = bias.defined();
  auto& kernel = kernels.get(tag_of(x), parameter_tag(x.scalar_type(), type));
  const RowLaunch launch =
      share_rows_beside({weight, bias}, share_rows(kernel, uint64_t(rows), uint64_t(size), {x}, {y}));
  p.shape = launch.shape;
  Launch l(kernel);
  l.outputs(y, mean, rstd).inputs(x, weight, bias);
  launch.run(l.bytes(p), uint64_t(size) * 2);
  return Three(y, mean, rstd);
}

// Computes the gradients of the weight and the bias from partial sums of shape [2][split][column].
std::pair<Tensor, Tensor> merge_gradients(const Tensor& parts, const RowNormParams& p, IntArrayRef shape,
                                          const at::TensorOptions& options, std::array<bool, 3> mask) {
  std::pair<Tensor, Tensor> gradients;
  if (mask[1]) gradients.first = at::empty(shape, options);
  if (mask[2]) gradients.second = at::empty(shape, options);
  merge_splits(gradients.first, gradients.second, parts, p);
  return gradients;
}

// Computes all three gradients in one pass over memory. Returns nullopt if a row does not fit in the registers of a row
// group.
std::optional<Three> fused_gradients(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                     const Tensor& weight, RowNormParams p, IntArrayRef shape,
                                     std::array<bool, 3> mask) {
  static const KernelSet kernels("layer_norm_backward_fused");
  auto& kernel = kernels.get(tag_of(x), parameter_tag(x.scalar_type(), mean.scalar_type()));
  const Tensor dx = at::empty(x.sizes(), x.options());
  const auto launch = share_fused(kernel, p, dy, x, dx, weight);
  if (!launch) return std::nullopt;
  const Tensor parts = at::empty({2, int64_t(p.splits), int64_t(p.shape.size)}, x.options().dtype(at::kFloat));
  Launch l(kernel);
  l.outputs(dx, parts).inputs(dy, x, mean, rstd);
  launch->run(l.inputs(weight).bytes(p), fused_work(p, *launch));
  const auto [dweight, dbias] = merge_gradients(parts, p, shape, mean.options(), mask);
  return Three(dx, dweight, dbias);
}

// Computes dweight and dbias in one pass over the rows.
std::pair<Tensor, Tensor> weight_gradients(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                           RowNormParams p, IntArrayRef shape, std::array<bool, 3> mask) {
  static const KernelSet kernels("layer_norm_backward_weight");
  split_rows(p);
  p.aligned_rows = rows_aligned(p.shape.size, {dy, x});
  const Tensor parts = at::empty({2, int64_t(p.splits), int64_t(p.shape.size)}, x.options().dtype(at::kFloat));
  Launch launch(kernels.get(tag_of(x), parameter_tag(x.scalar_type(), mean.scalar_type())));
  launch.outputs(parts).inputs(dy, x, mean, rstd);
  launch_splits(launch, p);
  return merge_gradients(parts, p, shape, mean.options(), mask);
}

std::optional<Three> layer_norm_backward(const Tensor& grad, const Tensor& input, IntArrayRef shape,
                                         const Tensor& mean_given, const Tensor& rstd_given,
                                         const OptionalTensor& weight_given, const OptionalTensor& bias_given,
                                         std::array<bool, 3> mask) {
  static const KernelSet kernels("layer_norm_backward");
  const Tensor weight_or_none = or_none(weight_given), bias_or_none = or_none(bias_given);
  const auto [rows, size] = at::native::_check_layer_norm_inputs(input, shape, weight_or_none, bias_or_none);
  const at::ScalarType type = parameter_type(input, weight_or_none, bias_or_none);
  if (!fits(input, weight_or_none, bias_or_none) || !is_plain(grad) || grad.scalar_type() != input.scalar_type() ||
      mean_given.scalar_type() != type || rstd_given.scalar_type() != type)
    return std::nullopt;
  const Tensor x = input.contiguous(), dy = grad.contiguous(), weight = contiguous_or_none(weight_or_none);
  const Tensor mean = mean_given.contiguous(), rstd = rstd_given.contiguous();
  Three gradients;
  if (rows == 0 || size == 0) {
    if (mask[0]) std::get<0>(gradients) = at::empty(x.sizes(), x.options());
    if (mask[1]) std::get<1>(gradients) = at::empty(shape, mean.options()).zero_();
    if (mask[2]) std::get<2>(gradients) = at::empty(shape, mean.options()).zero_();
    return gradients;
  }
  RowNormParams p = row_norm_params(rows, size, 0);
  p.has_weight = weight.defined();
  if (mask[0] && (mask[1] || mask[2]) && p.has_weight)
    if (auto all = fused_gradients(dy, x, mean, rstd, weight, p, shape, mask)) return all;
  if (mask[0]) {
    const Tensor dx = at::empty(x.sizes(), x.options());
    auto& kernel = kernels.get(tag_of(x), parameter_tag(x.scalar_type(), type));
    const RowLaunch launch =
        share_rows_beside({weight}, share_rows(kernel, uint64_t(rows), uint64_t(size), {dy, x}, {dx}));
    p.shape = launch.shape;
    Launch l(kernel);
    l.outputs(dx).inputs(dy, x, mean, rstd, weight);
    launch.run(l.bytes(p), uint64_t(size) * 3);
    std::get<0>(gradients) = dx;
  }
  if (mask[1] || mask[2])
    std::tie(std::get<1>(gradients), std::get<2>(gradients)) = weight_gradients(dy, x, mean, rstd, p, shape, mask);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"native_layer_norm", &layer_norm>(m);
  op<"native_layer_norm_backward", &layer_norm_backward>(m);
}

}  // namespace mpsx::ops
