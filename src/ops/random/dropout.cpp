// Dropout. On PrivateUse1 devices, at::dropout (nn.Dropout) calls native_dropout in training mode.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "ops/operator.h"
#include "ops/random/random.h"
#include "runtime/random_argument.h"

namespace mpsx::ops {
namespace {

using Result = std::tuple<Tensor, Tensor>;

// Returns the number of threads per chunk, which is one per 16-byte vector in a quarter of the chunk.
uint32_t vec_threads(const Tensor& t) { return kRandomBlocks * uint32_t(t.element_size()) / 16; }

std::optional<Result> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  static const KernelSet kernels("dropout");
  TORCH_CHECK(p >= 0 && p <= 1, "native_dropout: expected a probability in [0, 1], got ", p);
  if (!has_float_kernel(input)) return std::nullopt;
  const auto mask_options = input.options().dtype(at::kBool);
  if (p == 0 || !train.value_or(true)) return Result(input.clone(), at::ones_like(input, mask_options));
  if (p == 1) return Result(at::zeros_like(input), at::zeros_like(input, mask_options));

  const Tensor dense = input.is_non_overlapping_and_dense() ? input : input.contiguous();
  const Tensor out = at::empty_like(dense), mask = at::empty_like(dense, mask_options);
  RandomParams params = random_params(std::nullopt, dense.numel());
  params.a = float(1 / (1 - p));
  params.bound = bernoulli_bound(1 - p);
  Launch launch(kernels.get(tag_of(dense)));
  launch.outputs(out, mask).inputs(dense);
  params.vectorized = aligned(out, mask, dense);
  over_chunks(launch.bytes(runtime::random_argument(params)), params);
  if (params.vectorized) launch.groups({uint32_t(random_chunks(params.numel))}, vec_threads(dense));
  launch.run();
  return Result(out, mask);
}

std::optional<Tensor> native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  static const KernelSet kernels("dropout_backward");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "native_dropout_backward: expected a mask of type Bool, got ",
              mask.scalar_type());
  TORCH_CHECK(grad.sizes() == mask.sizes(), "native_dropout_backward: expected a gradient of the mask's shape ",
              mask.sizes(), ", got ", grad.sizes());
  if (is_plain(grad) && at::isIntegralType(grad.scalar_type(), true))
    return grad.mul(mask.to(grad.options()).mul(scale));
  if (!has_float_kernel(grad)) return std::nullopt;
  // As on the CPU, the output has the strides of g.
  const Tensor g = grad.is_non_overlapping_and_dense() ? grad : grad.mul(at::ones_like(mask));
  Tensor m = mask;
  if (m.strides() != g.strides()) m = at::empty_strided(g.sizes(), g.strides(), mask.options()).copy_(mask);
  const Tensor out = at::empty_like(g);
  RandomParams params{};
  params.numel = g.numel();
  params.a = float(scale);
  Launch launch(kernels.get(tag_of(g)));
  launch.outputs(out).inputs(g, m);
  params.vectorized = aligned(out, g, m);
  launch.bytes(params).groups({uint32_t(random_chunks(params.numel))}, vec_threads(g)).work(kRandomChunk).run();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"native_dropout", &native_dropout>(m);
  op<"native_dropout_backward", &native_dropout_backward>(m);
}

}  // namespace mpsx::ops
