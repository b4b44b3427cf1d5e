// Activations with two tensor operands: glu (both halves of its input), prelu (input and weight), and rrelu (input and
// noise).
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/ternary.h"
#include "ops/narrow.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

Tensor gate(const ElementwiseKernels& kernels, const Tensor& first, const Tensor& second, const Tensor& out) {
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(out).add_const_input(first).add_const_input(second).build();
  kernels.run(iter, tag_of(first), ScalarParams{});
  return iter.output();
}

// Both halves of a tensor along a dimension.
struct GluHalves {
  int64_t dim, size;

  GluHalves(const Tensor& self, int64_t given) {
    TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
    dim = at::maybe_wrap_dim(given, self.dim());
    size = self.size(dim) / 2;
    TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
                self.size(dim));
  }
  Tensor first(const Tensor& t) const { return narrowed(t, dim, 0, size); }
  Tensor second(const Tensor& t) const { return narrowed(t, dim, size, size); }
};

const ElementwiseKernels& glu_kernels() {
  static const ElementwiseKernels kernels("glu", 2);
  return kernels;
}
bool glu(const Tensor& self, int64_t dim, Tensor& out) {
  if (!has_float_kernel(self) || !accepts(out, self.scalar_type())) return false;
  const GluHalves halves(self, dim);
  const Tensor result = gate(glu_kernels(), halves.first(self), halves.second(self), out);
  if (!out.defined()) out = result;
  return true;
}
// If y = a * sigmoid(b), then dy/da = sigmoid(b) and dy/db = a * sigmoid'(b).
bool glu_backward(const Tensor& grad, const Tensor& self, int64_t dim, Tensor& grad_input) {
  static const ElementwiseKernels of_second("glu_gate_backward", 3);
  if (!has_float_kernel(self) || !is_plain(grad) || grad.scalar_type() != self.scalar_type() ||
      !accepts(grad_input, self.scalar_type()))
    return false;
  const GluHalves halves(self, dim);
  allocate_or_resize(grad_input, self.sizes(), self.options());
  gate(glu_kernels(), grad, halves.second(self), halves.first(grad_input));
  Tensor second = halves.second(grad_input);
  run_ternary(of_second, self.scalar_type(), grad, halves.first(self), halves.second(self), ScalarParams{}, second);
  return true;
}

bool prelu(const Tensor& self, const Tensor& weight, Tensor& out) {
  static const ElementwiseKernels kernels("prelu", 2);
  if (!has_float_kernel(self) || !is_plain(weight) || weight.scalar_type() != self.scalar_type() ||
      !accepts(out, self.scalar_type()))
    return false;
  if (!out.defined()) out = at::empty_like(self);
  gate(kernels, weight, self, out);
  return true;
}
using Pair = std::tuple<Tensor, Tensor>;
std::optional<Pair> prelu_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  if (!has_float_kernel(self) || !is_plain(weight) || !is_plain(grad) || weight.scalar_type() != self.scalar_type() ||
      grad.scalar_type() != self.scalar_type())
    return std::nullopt;
  const Tensor positive = self.gt(0);
  return Pair{at::where(positive, grad, at::mul(grad, weight)), at::mul(grad, self).masked_fill_(positive, 0)};
}

// Multiplies each negative element by a random slope. `noise` saves the slopes for the backward pass.
bool rrelu(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
           std::optional<at::Generator> generator, Tensor& out) {
  if (!has_float_kernel(self) || !is_plain(noise)) return false;
  if (!out.defined()) out = at::empty_like(self, at::MemoryFormat::Contiguous);
  if (!training) return return_or_copy("rrelu", at::leaky_relu(self, (lower.toDouble() + upper.toDouble()) / 2), out);
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(), "rrelu_with_noise: expected noise of the input's shape ",
              self.sizes(), ", got ", noise.sizes());
  noise.uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.masked_fill_(self.gt(0), 1);
  return return_or_copy("rrelu", at::mul(self, noise), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"glu", &glu>(m);
  op<"glu_backward", &glu_backward>(m);
  op<"_prelu_kernel", &prelu>(m);
  op<"_prelu_kernel_backward", &prelu_backward>(m);
  op<"rrelu_with_noise", &rrelu>(m);
}

}  // namespace mpsx::ops
