// The operators that nn.TransformerEncoderLayer and nn.MultiheadAttention call for inference, composed of other
// operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>

#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

// Returns what to add to scores [batch, heads, queries, keys]. Boolean masks are true where a key is hidden. The types
// are those of torch.nn.MultiheadAttention.merge_masks.
MaybeTensor additive_mask(const char* op, const MaybeTensor& mask, std::optional<int64_t> type, const Tensor& query) {
  if (!mask || !mask->defined()) return std::nullopt;
  enum : int64_t { kQueriesByKeys = 0, kBatchByKeys = 1, kComplete = 2 };
  const int64_t kind = type.value_or(-1), dims = kind == kComplete ? 4 : 2;
  TORCH_CHECK(kind >= kQueriesByKeys && kind <= kComplete, op, ": mask_type: expected 0, 1 or 2, got ",
              type ? std::to_string(*type) : "None");
  TORCH_CHECK(mask->dim() == dims, op, ": expected a mask of ", dims, " dimensions for mask_type ", kind, ", got ",
              mask->sizes());
  const Tensor broadcast = kind == kBatchByKeys ? mask->unsqueeze(1).unsqueeze(1) : *mask;
  if (broadcast.scalar_type() != at::kBool) return broadcast.to(query.scalar_type());
  return at::zeros(broadcast.sizes(), query.options()).masked_fill_(broadcast, -INFINITY);
}

// Returns [batch, heads, length, head dimension].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

std::tuple<Tensor, Tensor> multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                int64_t embed_dim, int64_t heads, const Tensor& qkv_weight,
                                                const Tensor& qkv_bias, const Tensor& proj_weight,
                                                const Tensor& proj_bias, const MaybeTensor& mask, bool need_weights,
                                                bool average_weights, std::optional<int64_t> mask_type) {
  constexpr const char* op = "_native_multi_head_attention";
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, op, ": expected three dimensions, got ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  TORCH_CHECK(heads > 0 && embed_dim % heads == 0, op, ": expected a multiple of ", heads, " heads, got embed_dim ",
              embed_dim);
  TORCH_CHECK(query.size(2) == embed_dim, op, ": expected a query with ", embed_dim, " features, got ", query.sizes());
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && qkv_bias.numel() == 3 * embed_dim, op,
              ": expected a weight and a bias of ", 3 * embed_dim, " rows, got ", qkv_weight.sizes(), " and ",
              qkv_bias.sizes());
  std::vector<Tensor> qkv;
  if (query.is_same(key) && key.is_same(value)) {
    qkv = at::linear(query, qkv_weight, qkv_bias).chunk(3, -1);
  } else {
    const auto weights = qkv_weight.chunk(3), biases = qkv_bias.chunk(3);
    qkv = {at::linear(query, weights[0], biases[0]), at::linear(key, weights[1], biases[1]),
           at::linear(value, weights[2], biases[2])};
  }
  for (Tensor& part : qkv) part = split_heads(part, heads);
  const MaybeTensor added = additive_mask(op, mask, mask_type, query);
  Tensor out, weights;
  if (need_weights) {
    Tensor scores = at::matmul(qkv[0] * (1.0 / std::sqrt(double(embed_dim / heads))), qkv[1].transpose(-2, -1));
    if (added) scores = scores + *added;
    weights = at::softmax(scores, -1);
    out = at::matmul(weights, qkv[2]);
    if (average_weights) weights = weights.mean(1);
  } else {
    out = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], added);
  }
  return {at::linear(out.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim}), proj_weight, proj_bias),
          weights};
}

Tensor encoder_layer(const Tensor& src, int64_t embed_dim, int64_t heads, const Tensor& qkv_weight,
                     const Tensor& qkv_bias, const Tensor& proj_weight, const Tensor& proj_bias, bool use_gelu,
                     bool norm_first, double eps, const Tensor& norm_weight_1, const Tensor& norm_bias_1,
                     const Tensor& norm_weight_2, const Tensor& norm_bias_2, const Tensor& ffn_weight_1,
                     const Tensor& ffn_bias_1, const Tensor& ffn_weight_2, const Tensor& ffn_bias_2,
                     const MaybeTensor& mask, std::optional<int64_t> mask_type) {
  const auto norm_1 = [&](const Tensor& x) { return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps); };
  const auto norm_2 = [&](const Tensor& x) { return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps); };
  const auto attention = [&](const Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
                                            mask, false, true, mask_type));
  };
  const auto feed_forward = [&](const Tensor& x) {
    const Tensor hidden = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn_weight_2, ffn_bias_2);
  };
  if (norm_first) {
    const Tensor attended = src + attention(norm_1(src));
    return attended + feed_forward(norm_2(attended));
  }
  const Tensor attended = norm_1(src + attention(src));
  return norm_2(attended + feed_forward(attended));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_native_multi_head_attention", &multi_head_attention);
  impl(m, "_transformer_encoder_layer_fwd", &encoder_layer);
}

}  // namespace mpsx::ops
