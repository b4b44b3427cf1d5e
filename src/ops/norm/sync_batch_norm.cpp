// The operators that SyncBatchNorm uses to combine the statistics of several processes. PyTorch has no CPU kernels for
// them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using Maybe = std::optional<Tensor>;

// Returns all dimensions except the channel dimension.
std::vector<int64_t> reduced_dims(const Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// Converts a vector with one value per channel to float, and reshapes it so that it broadcasts to the input.
Tensor per_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(size_t(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(at::kFloat).view(shape);
}

bool has_value(const Maybe& t) { return t && t->defined(); }

void check_input(const char* op, const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2 && at::isFloatingType(input.scalar_type()), op,
              ": expected a floating-point input of at least 2 dimensions, got ", input.scalar_type(), " ",
              input.sizes());
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  check_input("batch_norm_stats", input);
  auto [var, mean] = at::var_mean(input.to(at::kFloat), reduced_dims(input), std::optional<at::Scalar>(0));
  return {mean, at::rsqrt(var + eps)};
}

// mean and invstd have shape (processes, channels), and counts has shape (processes).
std::tuple<Tensor, Tensor> gather_stats(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                        const Maybe& running_mean, const Maybe& running_var, double momentum,
                                        double eps, const Tensor& counts) {
  const Tensor weights = counts.to(at::kFloat).view({-1, 1});
  const Tensor total = weights.sum();
  const Tensor all_mean = (mean * weights).sum(0) / total;
  const Tensor var = invstd.pow(-2) - eps;
  const Tensor squares = ((var + (mean - all_mean).square()) * weights).sum(0);
  if (has_value(running_mean)) running_mean->mul_(1 - momentum).add_(all_mean, momentum);
  if (has_value(running_var)) running_var->mul_(1 - momentum).add_(squares / (total - 1), momentum);
  return {all_mean, at::rsqrt(squares / total + eps)};
}

Tensor normalize(const Tensor& input, const Maybe& weight, const Maybe& bias, const Tensor& mean, const Tensor& invstd,
                 double) {
  check_input("batch_norm_elemt", input);
  Tensor result = (input.to(at::kFloat) - per_channel(mean, input)).mul_(per_channel(invstd, input));
  if (has_value(weight)) result.mul_(per_channel(*weight, input));
  if (has_value(bias)) result.add_(per_channel(*bias, input));
  return at::empty_like(input).copy_(result);
}
Tensor& normalize_out(const Tensor& input, const Maybe& weight, const Maybe& bias, const Tensor& mean,
                      const Tensor& invstd, double eps, Tensor& out) {
  out.resize_(input.sizes());
  return out.copy_(normalize(input, weight, bias, mean, invstd, eps));
}

// Returns the sums of dY and dY * (X - mean), and the gradients of the weight and the bias that follow from them.
std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                           const Tensor& mean, const Tensor& invstd,
                                                           const Maybe& weight, bool input_grad, bool weight_grad,
                                                           bool bias_grad) {
  check_input("batch_norm_backward_reduce", input);
  const Tensor grad = grad_out.to(at::kFloat);
  const auto dims = reduced_dims(input);
  const Tensor sum_dy = at::sum(grad, dims);
  const Tensor sum_dy_xmu = at::sum(grad * (input.to(at::kFloat) - per_channel(mean, input)), dims);
  const auto dtype = has_value(weight) ? weight->scalar_type() : input.scalar_type();
  return {input_grad ? sum_dy : Tensor(), input_grad ? sum_dy_xmu : Tensor(),
          weight_grad ? (sum_dy_xmu * invstd).to(dtype) : Tensor(),
          bias_grad ? sum_dy.to(dtype, false, true) : Tensor()};
}

Tensor backward_input(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const Maybe& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& counts) {
  check_input("batch_norm_backward_elemt", input);
  const Tensor total = counts.sum().to(at::kFloat);
  const Tensor slope = invstd * (sum_dy_xmu / total);
  Tensor grad = grad_out.to(at::kFloat) - per_channel(sum_dy / total, input);
  Tensor normalized = (input.to(at::kFloat) - per_channel(mean, input)).mul_(per_channel(invstd, input));
  grad.sub_(normalized.mul_(per_channel(slope, input)));
  grad.mul_(per_channel(has_value(weight) ? invstd * *weight : invstd, input));
  return at::empty_like(input).copy_(grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "batch_norm_stats", &stats);
  impl(m, "batch_norm_gather_stats_with_counts", &gather_stats);
  impl(m, "batch_norm_elemt", &normalize);
  impl(m, "batch_norm_elemt.out", &normalize_out);
  impl(m, "batch_norm_backward_reduce", &backward_reduce);
  impl(m, "batch_norm_backward_elemt", &backward_input);
}

}  // namespace mpsx::ops
