// The cells of nn.LSTM and nn.GRU: torch calls fused cells on accelerators, and has none for the CPU to fall back to.
// Formulas: aten/src/ATen/native/cuda/RNN.cu.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "backend/alias.h"
#include "backend/vendor.h"

namespace mpsx::backend {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct Cell {
  explicit Cell(runtime::RouteEntry& route) : call(route) {}
  VendorCall call;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CpuAliases a;

  std::vector<Tensor> gates(const Tensor& t, int64_t count) { return a.cpu(t).unsafe_chunk(count, 1); }
};

runtime::RouteEntry& route(const char* op) { return runtime::route_entry(op, runtime::Route::vendor, "ATen"); }

// workspace: the activated gates i, f, g, o.
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                        const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  static auto& entry = route("aten::_thnn_fused_lstm_cell");
  Cell c(entry);
  const Tensor input = c.a.cpu(input_gates), hidden = c.a.cpu(hidden_gates), cell = c.a.cpu(cx);
  c.a.check_same_device("_thnn_fused_lstm_cell");
  Tensor all = input + hidden;
  if (auto bias = c.a.cpu(input_bias)) all.add_(*bias).add_(*c.a.cpu(hidden_bias));
  auto gate = all.unsafe_chunk(4, 1);
  gate[0].sigmoid_();
  gate[1].sigmoid_();
  gate[2].tanh_();
  gate[3].sigmoid_();
  Tensor cy = gate[1] * cell + gate[0] * gate[2];
  Tensor hy = gate[3] * cy.tanh();
  return {c.a.device(hy), c.a.device(cy), c.a.device(all)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                 const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                 bool has_bias) {
  static auto& entry = route("aten::_thnn_fused_lstm_cell_backward_impl");
  Cell c(entry);
  const auto gate = c.gates(workspace, 4);
  const Tensor i = gate[0], f = gate[1], g = gate[2], o = gate[3], tanh_c = c.a.cpu(cy).tanh();
  const Tensor gh = c.a.cpu(grad_hy).value_or(at::zeros_like(tanh_c));
  Tensor gc = gh * o * (1 - tanh_c * tanh_c);
  if (auto extra = c.a.cpu(grad_cy)) gc = gc + *extra;
  Tensor grad_gates = at::cat(
      {gc * g * i * (1 - i), gc * c.a.cpu(cx) * f * (1 - f), gc * i * (1 - g * g), gh * tanh_c * o * (1 - o)}, 1);
  Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {c.a.device(grad_gates), c.a.device(gc * f), c.a.device(grad_bias)};
}

// workspace: reset, update, new, hx, and the hidden part of new.
std::tuple<Tensor, Tensor> gru(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx_,
                               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  static auto& entry = route("aten::_thnn_fused_gru_cell");
  Cell c(entry);
  Tensor input = c.a.cpu(input_gates), hidden = c.a.cpu(hidden_gates);
  const Tensor hx = c.a.cpu(hx_);
  c.a.check_same_device("_thnn_fused_gru_cell");
  if (auto bias = c.a.cpu(input_bias)) {
    input = input + *bias;
    hidden = hidden + *c.a.cpu(hidden_bias);
  }
  const auto in = input.unsafe_chunk(3, 1), hid = hidden.unsafe_chunk(3, 1);
  const Tensor reset = (in[0] + hid[0]).sigmoid_(), update = (in[1] + hid[1]).sigmoid_();
  const Tensor fresh = (in[2] + reset * hid[2]).tanh_();
  Tensor hy = fresh + update * (hx - fresh);
  return {c.a.device(hy), c.a.device(at::cat({reset, update, fresh, hx, hid[2]}, 1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                bool has_bias) {
  static auto& entry = route("aten::_thnn_fused_gru_cell_backward");
  Cell c(entry);
  const auto saved = c.gates(workspace, 5);
  const Tensor reset = saved[0], update = saved[1], fresh = saved[2], hx = saved[3], hidden = saved[4];
  const Tensor grad = c.a.cpu(grad_hy);
  const Tensor grad_update = grad * (hx - fresh) * (1 - update) * update;
  const Tensor grad_fresh = grad * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_fresh * hidden * (1 - reset) * reset;
  Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  Tensor input_bias, hidden_bias;
  if (has_bias) {
    input_bias = grad_input.sum(0);
    hidden_bias = grad_hidden.sum(0);
  }
  return {c.a.device(grad_input), c.a.device(grad_hidden), c.a.device(grad * update), c.a.device(input_bias),
          c.a.device(hidden_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_backward);
  m.impl("_thnn_fused_gru_cell", gru);
  m.impl("_thnn_fused_gru_cell_backward", gru_backward);
}

}  // namespace
}  // namespace mpsx::backend
