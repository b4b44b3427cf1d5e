#include "vendor/cpu/attention.h"

#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>

#include "vendor/cpu/vendor.h"

namespace mpsx::vendor {
namespace {

using at::Tensor;
constexpr const char* kFlash = "ATen flash attention";

}  // namespace

bool accepts_attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                       double dropout, bool causal, std::optional<double> scale, bool grouped) {
  // This CPU function only reads shapes and dtypes, so it also accepts fake tensors.
  const int64_t chosen = at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, causal, scale, grouped);
  return chosen == static_cast<int64_t>(sdp::SDPBackend::flash_attention);
}

std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const std::optional<Tensor>& mask, double dropout, bool causal,
                                     std::optional<double> scale) {
  static const Operator op("aten::_scaled_dot_product_flash_attention_for_cpu", kFlash,
                           "aten::scaled_dot_product_attention");
  return op.call<std::tuple<Tensor, Tensor>>(query, key, value, dropout, causal, mask, scale);
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                      const Tensor& value, const Tensor& out, const Tensor& log_sum_exp,
                                                      const std::optional<Tensor>& mask, double dropout, bool causal,
                                                      std::optional<double> scale) {
  static const Operator op("aten::_scaled_dot_product_flash_attention_for_cpu_backward", kFlash,
                           "aten::scaled_dot_product_attention_backward");
  return op.call<std::tuple<Tensor, Tensor, Tensor>>(grad, query, key, value, out, log_sum_exp, dropout, causal, mask,
                                                     scale);
}

}  // namespace mpsx::vendor
