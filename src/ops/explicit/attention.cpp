// torch.ops.mpsx.scaled_dot_product_attention. Uses the fused kernel if it supports the arguments. Otherwise, it is
// composed from explicit operators for matmul and softmax.
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "attention/attention_params.h"
#include "ops/explicit.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops::explicit_ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

std::tuple<Tensor, Tensor> fused(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& bias,
                                 bool causal, std::optional<double> scale) {
  auto all = at::_scaled_dot_product_fused_attention_overrideable(query, key, value, bias, 0.0, causal, false, scale);
  return {std::get<0>(all), std::get<1>(all).contiguous()};
}

// The output has the dimension order of the query.
std::tuple<Tensor, Tensor> fused_meta(const Tensor& query, const Tensor&, const Tensor&, const MaybeTensor&, bool,
                                      std::optional<double>) {
  const c10::SymInt sizes[] = {query.sym_size(0), query.sym_size(1), query.sym_size(2)};
  return {at::empty_like(query), at::empty_symint(sizes, query.options().dtype(at::kFloat))};
}

std::tuple<Tensor, Tensor, Tensor> fused_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                  const Tensor& value, const MaybeTensor& bias, const Tensor& out,
                                                  const Tensor& log_sum_exp, bool causal, std::optional<double> scale) {
  const Tensor none;
  auto [grad_query, grad_key, grad_value, grad_bias] = at::_scaled_dot_product_fused_attention_overrideable_backward(
      grad, query, key, value, bias.value_or(none), {true, true, true, false}, out, log_sum_exp, none, none,
      query.size(2), key.size(2), 0.0, causal, none, none, scale);
  return {grad_query, grad_key, grad_value};
}

std::tuple<Tensor, Tensor, Tensor> fused_backward_meta(const Tensor&, const Tensor& query, const Tensor& key,
                                                       const Tensor& value, const MaybeTensor&, const Tensor&,
                                                       const Tensor&, bool, std::optional<double>) {
  const auto like = [](const Tensor& t) {
    return at::empty_symint({t.sym_size(0), t.sym_size(2), t.sym_size(1), t.sym_size(3)}, t.options()).transpose(1, 2);
  };
  return {like(query), like(key), like(value)};
}

Gradients fused_derivative(const BackwardCall& c) {
  const Stack all = run_all<"fused_attention_backward">(c.grad(), c.tensor(0), c.tensor(1), c.tensor(2), c.argument(3),
                                                        c.result(0), c.result(1), c.argument(4), c.argument(5));
  return {{0, all[0].toTensor()}, {1, all[1].toTensor()}, {2, all[2].toTensor()}};
}

// The derivative of a @ b, whose leading dimensions are broadcast. Both tensors have at least two dimensions.
Gradients matmul_derivative(const BackwardCall& c) {
  Gradients gradients;
  if (c.needs(0)) gradients.emplace_back(0, run<"matmul">(c.grad(), c.tensor(1).transpose(-2, -1)));
  if (c.needs(1)) gradients.emplace_back(1, run<"matmul">(c.tensor(0).transpose(-2, -1), c.grad()));
  return gradients;
}

void check(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask, double dropout,
           bool causal, bool grouped) {
  constexpr const char* op = "mpsx::scaled_dot_product_attention";
  check_same_device(op, query, key, value, mask);
  TORCH_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, op,
              ": expected query, key and value of at least two dimensions, got shapes ", query.sym_sizes(), ", ",
              key.sym_sizes(), " and ", value.sym_sizes());
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && query.scalar_type() == value.scalar_type(), op,
              ": expected query, key and value of the same type, got ", query.scalar_type(), ", ", key.scalar_type(),
              " and ", value.scalar_type());
  TORCH_CHECK(query.sym_size(-1) == key.sym_size(-1) && key.sym_size(-2) == value.sym_size(-2), op,
              ": expected query [.., L, E], key [.., S, E] and value [.., S, V], got shapes ", query.sym_sizes(), ", ",
              key.sym_sizes(), " and ", value.sym_sizes());
  TORCH_CHECK(dropout >= 0.0 && dropout <= 1.0, op, ": expected dropout_p from 0 to 1, got ", dropout);
  if (mask && mask->defined()) {
    TORCH_CHECK(!causal, op, ": expected attn_mask or is_causal, got both");
    TORCH_CHECK(mask->scalar_type() == at::kBool || mask->scalar_type() == query.scalar_type(), op,
                ": expected an attn_mask of bool or the query's type ", query.scalar_type(), ", got ",
                mask->scalar_type());
  }
  TORCH_CHECK(!grouped || (query.dim() >= 3 && query.sym_size(-3) % key.sym_size(-3) == 0 &&
                           query.sym_size(-3) % value.sym_size(-3) == 0),
              op, ": expected a number of query heads divisible by those of key and value, got shapes ",
              query.sym_sizes(), ", ", key.sym_sizes(), " and ", value.sym_sizes());
}

// Converts a bool mask, in which true means that a query may attend to a key, to an additive mask with minus infinity
// for false.
MaybeTensor as_bias(const MaybeTensor& mask, const Tensor& query) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool) return mask;
  const Tensor zeros = at::zeros_symint(mask->sym_sizes(), query.options().requires_grad(false));
  return run<"masked_fill">(zeros, run<"logical_not">(*mask), at::Scalar(-INFINITY));
}

// Returns whether the fused kernel supports the arguments. They must have shape [batch, head, length, head_dim], the
// same head_dim and dense rows, and there must be no dropout.
bool serves(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask, double dropout) {
  if (dropout > 0 || query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  if (mask && mask->defined() && (mask->requires_grad() || (mask->dim() != 2 && mask->dim() != 4))) return false;
  if (!vendor::preferred() && (query.scalar_type() == at::kDouble || query.sym_size(3) > kMaxHeadDim)) return false;
  return query.sym_size(0) == key.sym_size(0) && key.sym_size(0) == value.sym_size(0) &&
         query.sym_size(1) == key.sym_size(1) && key.sym_size(1) == value.sym_size(1) &&
         query.sym_size(3) == value.sym_size(3) && query.sym_numel() != 0 && key.sym_numel() != 0;
}

Tensor composed(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& bias, double dropout,
                bool causal, double scale) {
  const Tensor scaled = run<"mul.Scalar">(query, at::Scalar(scale));
  Tensor scores = run<"matmul">(scaled, key.transpose(-2, -1));
  if (causal) {
    const Tensor future =
        at::ones_symint({query.sym_size(-2), key.sym_size(-2)}, query.options().dtype(at::kBool).requires_grad(false))
            .triu(1);
    scores = run<"masked_fill">(scores, future, at::Scalar(-INFINITY));
  }
  if (bias && bias->defined()) scores = run<"add">(scores, *bias, at::Scalar(1));
  Tensor weights = run<"softmax">(scores, int64_t(-1), IValue());
  if (dropout > 0) weights = at::dropout(weights, dropout, /*train=*/true);
  return run<"matmul">(weights, value);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask, double dropout,
                 bool causal, std::optional<double> scale, bool grouped) {
  check(query, key, value, mask, dropout, causal, grouped);
  const auto repeated = [&](const Tensor& t) {
    if (!grouped || t.sym_size(-3) == query.sym_size(-3)) return t;
    return t.repeat_interleave_symint(query.sym_size(-3) / t.sym_size(-3), -3);
  };
  const auto whole_rows = [](const Tensor& t) { return t.sym_stride(-1) == 1 ? t : t.contiguous(); };
  const Tensor keys = repeated(key), values = repeated(value);
  const MaybeTensor bias = as_bias(mask, query);
  if (serves(query, keys, values, bias, dropout))
    return run<"fused_attention">(whole_rows(query), whole_rows(keys), whole_rows(values), bias, causal, scale);
  const double factor = scale ? *scale : 1.0 / std::sqrt(double(query.size(-1)));
  return composed(query, keys, values, bias, dropout, causal, factor);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  define_op(m,
            "mpsx::fused_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool is_causal, "
            "float? scale) -> (Tensor, Tensor)",
            Accepts::FLOATS, &fused, &fused_meta);
  define_op(m,
            "mpsx::fused_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
            "Tensor out, Tensor logsumexp, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)",
            Accepts::FLOATS, &fused_backward, &fused_backward_meta);
  mirror_aten(m, {"matmul", "matmul", "", Accepts::FLOATS});
  add_derivative(m, {"fused_attention", kept({0, 1, 2, 3}), kept({0, 1}), &fused_derivative});
  add_derivative(m, {"matmul", kept({0, 1}), 0, &matmul_derivative});
  add_not_differentiable(m, "fused_attention_backward");
  m.def(
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
      "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
      &attention, {at::Tag::pt2_compliant_tag});
}

}  // namespace mpsx::ops::explicit_ops
