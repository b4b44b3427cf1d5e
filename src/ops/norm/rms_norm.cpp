// Launches the kernels in metal/norm/rms_norm.metal.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <limits>

#include "ops/norm/row_norm.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

// Returns the number of rows and their size. Throws if the last dimensions of `x` or the shape of the weight are not
// `shape`.
std::pair<int64_t, int64_t> check(const Tensor& x, IntArrayRef shape, const Tensor& weight) {
  const auto axis = x.dim() - int64_t(shape.size());
  TORCH_CHECK(!shape.empty(), "rms_norm: expected normalized_shape to have at least one dimension, got none");
  TORCH_CHECK(axis >= 0 && x.sizes().slice(size_t(axis)) == shape, "rms_norm: given normalized_shape=", shape,
              ", expected input with shape [*, ", shape, "], but got input of size ", x.sizes());
  TORCH_CHECK(!weight.defined() || weight.sizes() == shape,
              "rms_norm: expected weight of the same shape as normalized_shape, got weight of shape ",
              weight.defined() ? weight.sizes() : IntArrayRef(), " and normalized_shape ", shape);
  TORCH_CHECK(is_plain(x) && is_float_tag(tag_of(x)), "rms_norm: expected a Float, Half or BFloat16 input, got ",
              x.scalar_type());
  TORCH_CHECK(!weight.defined() || (is_plain(weight) && parameters_fit(x.scalar_type(), weight.scalar_type())),
              "rms_norm: expected weight of type ", x.scalar_type(), " or Float, got ",
              weight.defined() ? weight.scalar_type() : at::kFloat);
  return {c10::multiply_integers(x.sizes().slice(0, size_t(axis))), c10::multiply_integers(shape)};
}

// PyTorch's default is the epsilon of the type in which it computes.
constexpr double kDefaultEps = std::numeric_limits<float>::epsilon();

Tag weight_tag(const Tensor& x, const Tensor& weight) {
  return weight.defined() ? parameter_tag(x.scalar_type(), weight.scalar_type()) : Tag::none;
}

// Returns false for floating-point types without kernels (float64), which composed() handles.
bool has_kernel(const Tensor& x) { return is_float_tag(tag_of(x)) || !x.is_floating_point(); }

std::vector<int64_t> last_dims(IntArrayRef shape) {
  std::vector<int64_t> dims;
  for (size_t i = 1; i <= shape.size(); ++i) dims.push_back(-int64_t(i));
  return dims;
}

Two composed(const Tensor& x, IntArrayRef shape, const Tensor& weight, std::optional<double> eps) {
  const double epsilon = eps.value_or(std::numeric_limits<double>::epsilon());
  const Tensor rstd = at::rsqrt(x.square().mean(last_dims(shape), true) + epsilon);
  const Tensor y = x * rstd;
  return {weight.defined() ? y * weight : y, rstd};
}

Two composed_backward(const Tensor& dy, const Tensor& x, IntArrayRef shape, const Tensor& rstd, const Tensor& weight,
                      std::array<bool, 2> mask) {
  const Tensor g = weight.defined() ? dy * weight : dy, normal = x * rstd;
  Two gradients;
  if (mask[0]) std::get<0>(gradients) = rstd * (g - normal * (g * normal).mean(last_dims(shape), true));
  if (mask[1] && weight.defined()) std::get<1>(gradients) = (dy * normal).sum_to_size(shape);
  return gradients;
}

Two fused_rms_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight_given,
                   std::optional<double> eps) {
  static const KernelSet kernels("rms_norm");
  if (!has_kernel(input)) return composed(input, shape, weight_given.value_or(Tensor()), eps);
  const auto [rows, size] = check(input, shape, weight_given.value_or(Tensor()));
  const Tensor x = input.contiguous(), weight = contiguous_or_none(weight_given.value_or(Tensor()));
  c10::SmallVector<int64_t, 6> stats(input.sizes().begin(), input.sizes().end());
  std::fill(stats.end() - std::ptrdiff_t(shape.size()), stats.end(), 1);
  const Tensor y = at::empty(x.sizes(), x.options()), rstd = at::empty(stats, x.options().dtype(at::kFloat));
  if (rows == 0 || size == 0) return {y, rstd};
  RowNormParams p = row_norm_params(rows, size, eps.value_or(kDefaultEps));
  p.has_weight = weight.defined();
  auto& kernel = kernels.get(tag_of(x), weight_tag(x, weight));
  const RowLaunch launch = share_rows_beside({weight}, share_rows(kernel, uint64_t(rows), uint64_t(size), {x}, {y}));
  p.shape = launch.shape;
  Launch l(kernel);
  l.outputs(y, rstd).inputs(x);
  launch.run(l.inputs(weight).bytes(p), uint64_t(size) * 2);
  return {y, rstd};
}

// Computes both gradients in one pass over memory. Returns nullopt if a row does not fit in the registers of a row
// group.
std::optional<Two> fused_gradients(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& weight,
                                   RowNormParams p) {
  static const KernelSet kernels("rms_norm_backward_fused");
  auto& kernel = kernels.get(tag_of(x), weight_tag(x, weight));
  const Tensor dx = at::empty(x.sizes(), x.options()), dweight = at::empty(weight.sizes(), weight.options());
  const auto launch = share_fused(kernel, p, dy, x, dx, weight);
  if (!launch) return std::nullopt;
  const Tensor parts = at::empty({int64_t(p.splits), int64_t(p.shape.size)}, rstd.options());
  Launch l(kernel);
  l.outputs(dx, parts).inputs(dy, x, rstd, weight);
  launch->run(l.bytes(p), fused_work(p, *launch));
  merge_splits(dweight, Tensor(), parts, p);
  return Two(dx, dweight);
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& rstd, RowNormParams p, const Tensor& weight) {
  static const KernelSet kernels("rms_norm_backward_weight");
  split_rows(p);
  p.aligned_rows = rows_aligned(p.shape.size, {dy, x});
  const Tensor parts = at::empty({int64_t(p.splits), int64_t(p.shape.size)}, rstd.options());
  Launch launch(kernels.get(tag_of(x)));
  launch.outputs(parts).inputs(dy, x, rstd);
  launch_splits(launch, p);
  const Tensor gradient = at::empty(weight.sizes(), weight.options());
  merge_splits(gradient, Tensor(), parts, p);
  return gradient;
}

Two fused_rms_norm_backward(const Tensor& grad, const Tensor& input, IntArrayRef shape, const Tensor& rstd_given,
                            const OptionalTensor& weight_given, std::array<bool, 2> mask) {
  static const KernelSet kernels("rms_norm_backward");
  if (!has_kernel(input))
    return composed_backward(grad, input, shape, rstd_given, weight_given.value_or(Tensor()), mask);
  const auto [rows, size] = check(input, shape, weight_given.value_or(Tensor()));
  TORCH_CHECK(is_plain(grad) && grad.scalar_type() == input.scalar_type(),
              "rms_norm_backward: expected a gradient of type ", input.scalar_type(), ", got ", grad.scalar_type());
  const Tensor x = input.contiguous(), dy = grad.contiguous();
  const Tensor weight = contiguous_or_none(weight_given.value_or(Tensor()));
  const Tensor rstd = rstd_given.to(at::kFloat).contiguous();
  mask[1] = mask[1] && weight.defined();
  Two gradients;
  if (rows == 0 || size == 0) {
    if (mask[0]) std::get<0>(gradients) = at::empty(x.sizes(), x.options());
    if (mask[1]) std::get<1>(gradients) = at::empty(shape, weight.options()).zero_();
    return gradients;
  }
  RowNormParams p = row_norm_params(rows, size, 0);
  p.has_weight = weight.defined();
  if (mask[0] && mask[1])
    if (auto both = fused_gradients(dy, x, rstd, weight, p)) return *both;
  if (mask[0]) {
    const Tensor dx = at::empty(x.sizes(), x.options());
    auto& kernel = kernels.get(tag_of(x), weight_tag(x, weight));
    const RowLaunch launch =
        share_rows_beside({weight}, share_rows(kernel, uint64_t(rows), uint64_t(size), {dy, x}, {dx}));
    p.shape = launch.shape;
    Launch l(kernel);
    l.outputs(dx).inputs(dy, x);
    launch.run(l.inputs(rstd, weight).bytes(p), uint64_t(size) * 3);
    std::get<0>(gradients) = dx;
  }
  if (mask[1]) std::get<1>(gradients) = weight_gradient(dy, x, rstd, p, weight);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_fused_rms_norm", &fused_rms_norm);
  impl(m, "_fused_rms_norm_backward", &fused_rms_norm_backward);
}

}  // namespace mpsx::ops
