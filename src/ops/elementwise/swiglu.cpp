// SwiGLU, forward and backward: one pass over memory each.
#include <ATen/ops/empty_like.h>

#include "elementwise/swiglu_params.h"
#include "ops/elementwise/elementwise.h"
#include "ops/explicit/explicit.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

struct Halves {
  Tensor x, gate;
};

// The values and the gate: two tensors, or the halves of one along its last dimension (as in torch.nn.functional.glu).
Halves halves(const Tensor& input, const MaybeTensor& gate) {
  if (gate && gate->defined()) {
    TORCH_CHECK(input.scalar_type() == gate->scalar_type(), "swiglu: expected input and gate of one type, got ",
                input.scalar_type(), " and ", gate->scalar_type());
    TORCH_CHECK(input.sym_sizes() == gate->sym_sizes(), "swiglu: expected input and gate of one shape, got ",
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

constexpr int kOperands = 5;

void launch_strided(at::TensorIteratorBase& iter, Tag tag) {
  static const KernelSet rows("swiglu_backward_rows"), any("swiglu_backward_any");
  const int64_t element = iter.element_size(0);
  SwigluParams p{};
  bool unit = true;
  uint64_t planes = 1;  // dimensions past the fourth: one dispatch each
  for (int d = 0; d < 4; ++d) {
    p.size[d] = d < iter.ndim() ? uint32_t(iter.shape()[d]) : 1;
    for (int k = 0; k < kOperands; ++k) p.stride[k][d] = d < iter.ndim() ? iter.strides(k)[d] / element : 0;
  }
  for (int k = 0; k < kOperands; ++k) unit &= p.stride[k][0] == 1;
  for (int d = 4; d < iter.ndim(); ++d) planes *= uint64_t(iter.shape()[d]);
  for (uint64_t plane = 0; plane < planes; ++plane) {
    Launch launch((unit ? rows : any).get(tag));
    for (int k = 0; k < kOperands; ++k) {
      int64_t offset = 0;
      uint64_t rest = plane;
      for (int d = 4; d < iter.ndim(); ++d) {
        offset += int64_t(rest % uint64_t(iter.shape()[d])) * iter.strides(k)[d];
        rest /= uint64_t(iter.shape()[d]);
      }
      launch.pointer(static_cast<char*>(iter.data_ptr(k)) + offset);
    }
    launch.bytes(p).threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3]).run();
  }
}

void launch(at::TensorIteratorBase& iter, Tag tag) {
  static const KernelSet dense("swiglu_backward_dense");
  if (iter.numel() == 0) return;
  if (!iter.can_use_32bit_indexing()) {
    for (auto& part : iter.with_32bit_indexing()) launch(part, tag);
    return;
  }
  bool is_dense = iter.ndim() <= 1;
  for (int k = 0; k < kOperands && iter.ndim() == 1; ++k) is_dense &= iter.strides(k)[0] == iter.element_size(k);
  if (!is_dense) return launch_strided(iter, tag);
  const uint32_t count = uint32_t(iter.numel());
  Launch dispatch(dense.get(tag));
  for (int k = 0; k < kOperands; ++k) dispatch.pointer(iter.data_ptr(k));
  dispatch.bytes(count).over(count, size_t(iter.element_size(0))).run();
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

// Both gradients side by side, as the input was.
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
