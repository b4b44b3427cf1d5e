// The fused cells that PyTorch calls for nn.LSTM and nn.GRU on accelerators, composed from elementwise kernels. The
// formulas are the ones in aten/src/ATen/native/cuda/RNN.cu.
#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "backend/same_device.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

Tensor biased(const Tensor& gates, const MaybeTensor& bias) { return bias && bias->defined() ? gates + *bias : gates; }

// The workspace holds the activated gates i, f, g and o.
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                        const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  backend::check_same_device("_thnn_fused_lstm_cell", {&input_gates, &hidden_gates, &cx});
  const Tensor workspace = biased(biased(input_gates + hidden_gates, input_bias), hidden_bias);
  auto gates = workspace.unsafe_chunk(4, 1);
  for (const size_t i : {0, 1, 3}) gates[i].sigmoid_();
  gates[2].tanh_();
  const Tensor cy = at::addcmul(gates[1] * cx, gates[0], gates[2]);
  return {gates[3] * cy.tanh(), cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                 const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                 bool has_bias) {
  const auto gates = workspace.unsafe_chunk(4, 1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3], tanh_c = cy.tanh();
  const Tensor gh = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cy);
  Tensor gc = at::tanh_backward(gh * o, tanh_c);
  if (grad_cy && grad_cy->defined()) gc = gc + *grad_cy;
  const Tensor grad_gates = at::cat({at::sigmoid_backward(gc * g, i), at::sigmoid_backward(gc * cx, f),
                                     at::tanh_backward(gc * i, g), at::sigmoid_backward(gh * tanh_c, o)},
                                    1);
  return {grad_gates, gc * f, has_bias ? grad_gates.sum(0) : Tensor()};
}

// The workspace holds the reset, update and new gates, hx, and the hidden state's contribution to the new gate.
std::tuple<Tensor, Tensor> gru(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                               const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  backend::check_same_device("_thnn_fused_gru_cell", {&input_gates, &hidden_gates, &hx});
  const auto input = biased(input_gates, input_bias).unsafe_chunk(3, 1);
  const auto hidden = biased(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
  const Tensor reset = (input[0] + hidden[0]).sigmoid_(), update = (input[1] + hidden[1]).sigmoid_();
  const Tensor fresh = at::addcmul(input[2], reset, hidden[2]).tanh_();
  return {at::addcmul(fresh, update, hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_backward(const Tensor& grad, const Tensor& workspace,
                                                                bool has_bias) {
  const auto saved = workspace.unsafe_chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  const Tensor grad_update = at::sigmoid_backward(grad * (hx - fresh), update);
  const Tensor grad_fresh = at::tanh_backward(grad * (1 - update), fresh);
  const Tensor grad_reset = at::sigmoid_backward(grad_fresh * hidden, reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_thnn_fused_lstm_cell", &lstm);
  impl(m, "_thnn_fused_lstm_cell_backward_impl", &lstm_backward);
  impl(m, "_thnn_fused_gru_cell", &gru);
  impl(m, "_thnn_fused_gru_cell_backward", &gru_backward);
}

}  // namespace mpsx::ops
