// Launches the kernels in metal/random/sample.metal, and computes the gradients of samples with respect to the
// parameters of the distribution.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "backend/generator.h"
#include "ops/elementwise/elementwise.h"
#include "ops/operator.h"
#include "random/params.h"
#include "runtime/random_argument.h"

namespace mpsx::ops {
namespace {

using Generator = std::optional<at::Generator>;

bool has_sampler(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kFloat; }

// Draws one sample for each element of `first`. As on the CPU, the result is contiguous.
Tensor sample(const char* op, runtime::KernelEntry& kernel, const Tensor& first, const Tensor& second,
              const Generator& generator) {
  const Tensor a = first.contiguous(), b = second.defined() ? second.expand(first.sizes()).contiguous() : Tensor();
  const Tensor out = at::empty(first.sizes(), first.options(), at::MemoryFormat::Contiguous);
  const auto count = uint64_t(out.numel());
  if (count == 0) return out;
  TORCH_CHECK(count <= UINT32_MAX, op, ": expected fewer than 2^32 elements, got ", count);
  const auto state = backend::next_philox(generator, count);
  Launch launch(kernel);
  launch.outputs(out).inputs(a);
  if (b.defined()) launch.inputs(b);
  constexpr uint64_t kCost = 100;  // cost of a sample, relative to an addition
  const SampleParams params{state.seed, state.offset};
  launch.bytes(runtime::random_argument(params)).threads(count).work(kCost).run();
  return out;
}

std::optional<Tensor> gamma_samples(const Tensor& self, Generator generator) {
  static const KernelSet kernels("sample_gamma");
  if (!has_sampler(self)) return std::nullopt;
  return sample("_standard_gamma", kernels.get(Tag::f32), self, Tensor(), generator);
}

// Normalizes gamma samples so that each row sums to 1. Excludes 0 and 1, where densities can be infinite.
std::optional<Tensor> dirichlet(const Tensor& self, Generator generator) {
  if (!has_sampler(self)) return std::nullopt;
  const Tensor parts = *gamma_samples(self, std::move(generator));
  const float least = std::numeric_limits<float>::min(), most = std::nextafter(1.0f, 0.0f);
  return parts.div_(parts.sum(-1, true)).clamp_(least, most);
}

std::optional<Tensor> poisson(const Tensor& self, Generator generator) {
  static const KernelSet kernels("sample_poisson");
  if (!has_float_kernel(self)) return std::nullopt;
  TORCH_CHECK(self.numel() == 0 || self.min().item<float>() >= 0, "poisson: expected rates of at least 0");
  return sample("poisson", kernels.get(tag_of(self)), self, Tensor(), generator);
}

std::optional<Tensor> binomial(const Tensor& count, const Tensor& probability, Generator generator) {
  static const KernelSet kernels("sample_binomial");
  if (!has_sampler(count) || !has_sampler(probability)) return std::nullopt;
  return sample("binomial", kernels.get(Tag::f32), count, probability, generator);
}

std::optional<Tensor> gamma_gradient(const Tensor& self, const Tensor& output) {
  static const ElementwiseKernels kernels("standard_gamma_grad", 2);
  if (!has_sampler(self) || !has_sampler(output)) return std::nullopt;
  const Tensor none;  // the iterator allocates the output
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(none).add_const_input(self).add_const_input(output).build();
  kernels.run(iter, Tag::f32, ScalarParams{});
  return iter.output();
}

std::optional<Tensor> dirichlet_gradient(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  static const ElementwiseKernels kernels("dirichlet_grad", 3);
  if (!has_sampler(x) || !has_sampler(alpha) || !has_sampler(total)) return std::nullopt;
  const Tensor none;
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(none)
                                .add_const_input(x)
                                .add_const_input(alpha)
                                .add_const_input(total)
                                .build();
  kernels.run(iter, Tag::f32, ScalarParams{});
  return iter.output();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_standard_gamma", &gamma_samples>(m);
  op<"_sample_dirichlet", &dirichlet>(m);
  op<"poisson", &poisson>(m);
  op<"binomial", &binomial>(m);
  op<"_standard_gamma_grad", &gamma_gradient>(m);
  op<"_dirichlet_grad", &dirichlet_gradient>(m);
}

}  // namespace mpsx::ops
