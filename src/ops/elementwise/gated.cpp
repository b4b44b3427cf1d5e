// Activations of two tensors: glu, prelu, rrelu with its noise.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"
#include "ops/narrow.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using Pair = std::tuple<Tensor, Tensor>;

void run_glu_gate(const Tensor& grad, const Tensor& first, const Tensor& second, const Tensor& out) {
  static const ElementwiseKernels kernels("glu_gate_backward", 3);
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(out)
                                .add_const_input(grad)
                                .add_const_input(first)
                                .add_const_input(second)
                                .build();
  kernels.run(iter, tag_of(first), ScalarParams{});
}
void run(const ElementwiseKernels& kernels, const Tensor& first, const Tensor& second, const Tensor& out) {
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(out).add_const_input(first).add_const_input(second).build();
  kernels.run(iter, tag_of(first), ScalarParams{});
}

const ElementwiseKernels& glu_kernels() {
  static const ElementwiseKernels kernels("glu", 2);
  return kernels;
}
Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out) {
  if (!has_float_kernel(self) || out.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::glu", "out", self, dim, out), out;
  Structured<at::meta::structured_glu> outputs(out);
  outputs.meta(self, dim);
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()), half = self.size(along) / 2;
  run(glu_kernels(), narrowed(self, along, 0, half), narrowed(self, along, half, half), outputs.result());
  outputs.finish();
  return out;
}
// The result of a contiguous input is contiguous, which needs no more planning.
Tensor glu_new(const Tensor& self, int64_t dim) {
  if (!has_float_kernel(self) || !self.is_contiguous()) {
    Tensor out = at::empty({0}, self.options());
    return glu_out(self, dim, out);
  }
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()), half = self.size(along) / 2;
  TORCH_CHECK(self.size(along) % 2 == 0, "Halving dimension must be even, but dimension ", along, " is size ",
              self.size(along));
  c10::DimVector sizes(self.sizes());
  sizes[size_t(along)] = half;
  Tensor out = at::empty(sizes, self.options());
  run(glu_kernels(), narrowed(self, along, 0, half), narrowed(self, along, half, half), out);
  return out;
}

// d(a s(b)) is s(b) in a and a s'(b) in b.
Tensor& glu_backward_out(const Tensor& grad, const Tensor& self, int64_t dim, Tensor& grad_input) {
  if (!has_float_kernel(self) || !is_plain(grad) || grad.scalar_type() != self.scalar_type() ||
      grad_input.scalar_type() != self.scalar_type() || !is_plain(grad_input))
    return fallback_call<Tensor>("aten::glu_backward", "grad_input", grad, self, dim, grad_input), grad_input;
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
              self.size(dim));
  at::native::resize_output(grad_input, self.sizes());
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()), half = self.size(along) / 2;
  const Tensor first = narrowed(self, along, 0, half), second = narrowed(self, along, half, half);
  run(glu_kernels(), grad, second, narrowed(grad_input, along, 0, half));
  run_glu_gate(grad, first, second, narrowed(grad_input, along, half, half));
  return grad_input;
}
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  Tensor grad_input = at::empty_like(self, at::MemoryFormat::Contiguous);
  return glu_backward_out(grad, self, dim, grad_input);
}

Tensor prelu(const Tensor& self, const Tensor& weight) {
  static const ElementwiseKernels kernels("prelu", 2);
  if (!has_float_kernel(self) || !is_plain(weight) || weight.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::_prelu_kernel", "", self, weight);
  Tensor out = at::empty_like(self);
  run(kernels, weight, self, out);
  return out;
}
Pair prelu_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  if (!has_float_kernel(self) || !is_plain(weight) || !is_plain(grad) || weight.scalar_type() != self.scalar_type() ||
      grad.scalar_type() != self.scalar_type())
    return fallback_call<Pair>("aten::_prelu_kernel_backward", "", grad, self, weight);
  const Tensor positive = self.gt(0);
  return {at::where(positive, grad, at::mul(grad, weight)), at::mul(grad, self).masked_fill_(positive, 0)};
}

// Negative numbers are multiplied with a slope of their own, which noise keeps for the backward.
Tensor& rrelu_into(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                   const std::optional<at::Generator>& generator, Tensor& out) {
  if (!training) {
    out.copy_(at::leaky_relu(self, (lower.toDouble() + upper.toDouble()) / 2));
    return out;
  }
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(), "rrelu_with_noise: expected noise of the input's shape ",
              self.sizes(), ", got ", noise.sizes());
  noise.uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.masked_fill_(self.gt(0), 1);
  out.copy_(at::mul(self, noise));
  return out;
}
Tensor rrelu(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
             std::optional<at::Generator> generator) {
  if (!has_float_kernel(self) || !is_plain(noise))
    return fallback_call<Tensor>("aten::rrelu_with_noise", "", self, noise, lower, upper, training, generator);
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_into(self, noise, lower, upper, training, generator, out);
}
Tensor& rrelu_write(Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                    std::optional<at::Generator> generator) {
  if (!has_float_kernel(self) || !is_plain(noise))
    return fallback_call<Tensor>("aten::rrelu_with_noise_", "", self, noise, lower, upper, training, generator), self;
  return rrelu_into(self, noise, lower, upper, training, generator, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("glu", &glu_new);
  m.impl("glu.out", &glu_out);
  m.impl("glu_backward", &glu_backward);
  m.impl("glu_backward.grad_input", &glu_backward_out);
  m.impl("_prelu_kernel", &prelu);
  m.impl("_prelu_kernel_backward", &prelu_backward);
  m.impl("rrelu_with_noise", &rrelu);
  m.impl("rrelu_with_noise_", &rrelu_write);
}

}  // namespace mpsx::ops
