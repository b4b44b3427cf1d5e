// SwiGLU, forward and backward. Each makes a single pass over memory.
#include <ATen/ops/empty_like.h>

#include "elementwise/swiglu_params.h"
#include "ops/elementwise/elementwise.h"
#include "ops/explicit.h"
#include "ops/strided.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

struct Halves {
  Tensor x, gate;
};

// Returns the values and the gate. They are two separate tensors, or the halves of `input` along the last dimension (as
// in torch.nn.functional.glu).
Halves halves(const Tensor& input, const MaybeTensor& gate) {
  if (gate && gate->defined()) {
    TORCH_CHECK(input.scalar_type() == gate->scalar_type(), "swiglu: expected input and gate of the same type, got ",
                input.scalar_type(), " and ", gate->scalar_type());
    TORCH_CHECK(input.sym_sizes() == gate->sym_sizes(), "swiglu: expected input and gate of the same shape, got ",
                input.sym_sizes(), " and ", gate->sym_sizes());
    return {input, *gate};
  }
  TORCH_CHECK(input.dim() > 0 && input.sym_size(-1) % 2 == 0,
              "swiglu: expected a last dimension of even size, to be split into values and gate, got shape ",
              input.sym_sizes());
  const c10::SymInt half = input.sym_size(-1) / 2;
  return {input.narrow_symint(-1, 0, half), input.narrow_symint(-1, half, half)};
}

Tensor swiglu(const Tensor& input, const MaybeTensor& gate) {
  static const ElementwiseKernels kernels("swiglu", 2);
  const Halves h = halves(input, gate);
  Tensor out = at::empty_like(h.x);
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(out).add_const_input(h.x).add_const_input(h.gate).build();
  kernels.run(iter, tag_of(out), ScalarParams{});
  return out;
}

Tensor swiglu_meta(const Tensor& input, const MaybeTensor& gate) { return at::empty_like(halves(input, gate).x); }

void launch(at::TensorIteratorBase& iter, Tag tag) {
  static const KernelSet dense("swiglu_backward_dense"), strided("swiglu_backward_strided");
  constexpr size_t kOperands = 5, kOutputs = 2;
  if (iter.numel() == 0) return;
  if (!iter.can_use_32bit_indexing()) {
    for (auto& part : iter.with_32bit_indexing()) launch(part, tag);
    return;
  }
  const int64_t bytes = int64_t(iter.element_size(0));
  Strided<kOperands> loops;
  for (size_t d = 0; d < size_t(iter.ndim()); ++d) {
    std::array<int64_t, kOperands> strides;
    for (size_t k = 0; k < kOperands; ++k) strides[k] = iter.strides(int(k))[d] / bytes;
    loops.push(iter.shape()[d], strides);
  }
  bool rows = true;
  for (size_t k = 0; k < kOperands; ++k) rows = rows && loops.inner(k) == 1;
  SwigluParams p{};
  loops.each(p, 4, [&](const auto& offsets) {
    Launch dispatch((rows ? dense : strided).get(tag));
    std::array<const void*, kOperands> first;
    for (size_t k = 0; k < kOperands; ++k)
      dispatch.pointer(first[k] = static_cast<char*>(iter.data_ptr(int(k))) + offsets[k] * bytes,
                       k < kOutputs ? Access::write : Access::read);
    dispatch.bytes(p);
    over_rows(dispatch, p, rows ? size_t(bytes) : 0, first).run();
  });
}

void run_backward(const Tensor& grad, const Halves& h, const Halves& gradients) {
  TORCH_CHECK(grad.scalar_type() == h.x.scalar_type() && grad.sizes() == h.x.sizes(),
              "swiglu_backward: expected a gradient of type ", h.x.scalar_type(), " and shape ", h.x.sizes(), ", got ",
              grad.scalar_type(), " and ", grad.sizes());
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(gradients.x)
                                .add_output(gradients.gate)
                                .add_const_input(grad)
                                .add_const_input(h.x)
                                .add_const_input(h.gate)
                                .resize_outputs(false)
                                .build();
  launch(iter, tag_of(grad));
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& input, const Tensor& gate) {
  const Halves gradients{at::empty_like(input), at::empty_like(gate)};
  run_backward(grad, halves(input, gate), gradients);
  return {gradients.x, gradients.gate};
}
std::tuple<Tensor, Tensor> swiglu_backward_meta(const Tensor&, const Tensor& input, const Tensor& gate) {
  return {at::empty_like(input), at::empty_like(gate)};
}

// Returns both gradients, concatenated in the same way as the input.
Tensor swiglu_packed_backward(const Tensor& grad, const Tensor& input) {
  Tensor gradient = at::empty_like(input);
  run_backward(grad, halves(input, std::nullopt), halves(gradient, std::nullopt));
  return gradient;
}
Tensor swiglu_packed_backward_meta(const Tensor&, const Tensor& input) { return at::empty_like(input); }

using explicit_ops::Accepts;
using explicit_ops::BackwardCall;
using explicit_ops::Gradients;
using explicit_ops::kept;

Gradients derivative(const BackwardCall& c) {
  if (c.argument(1).isNone()) return {{0, explicit_ops::run<"swiglu_packed_backward">(c.grad(), c.tensor(0))}};
  auto gradients = explicit_ops::run_all<"swiglu_backward">(c.grad(), c.tensor(0), c.tensor(1));
  return {{0, gradients[0].toTensor()}, {1, gradients[1].toTensor()}};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  using namespace explicit_ops;
  define_op(m, "mpsx::swiglu(Tensor input, Tensor? gate=None) -> Tensor", Accepts::FLOATS, &swiglu, &swiglu_meta);
  define_op(m, "mpsx::swiglu_backward(Tensor grad, Tensor input, Tensor gate) -> (Tensor, Tensor)", Accepts::FLOATS,
            &swiglu_backward, &swiglu_backward_meta);
  define_op(m, "mpsx::swiglu_packed_backward(Tensor grad, Tensor input) -> Tensor", Accepts::FLOATS,
            &swiglu_packed_backward, &swiglu_packed_backward_meta);
  add_derivative(m, {"swiglu", kept({0, 1}), 0, &derivative});
  add_not_differentiable(m, "swiglu_backward");
  add_not_differentiable(m, "swiglu_packed_backward");
}

}  // namespace mpsx::ops
