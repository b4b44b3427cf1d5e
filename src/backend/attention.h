// scaled_dot_product_attention: torch asks _fused_sdp_choice (by operator and by stub) whether this device has a fused
// kernel, and calls the "overrideable" pair if so. Without these it would silently take the unfused path. Where a
// vendor's library is not preferred (vendor.h), kernels take what they can.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace mpsx::backend {

struct AttentionKernels {
  // A mask is added to the scores, or of bool.
  bool (*take)(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout);
  struct Result {
    at::Tensor out, log_sum_exp;
    int64_t seed, offset;  // of dropout's random numbers
  };
  Result (*forward)(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale);
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*backward)(const at::Tensor& grad, const at::Tensor& query,
                                                             const at::Tensor& key, const at::Tensor& value,
                                                             const std::optional<at::Tensor>& mask,
                                                             const Result& forward, double dropout, bool causal,
                                                             std::optional<double> scale);
};
void set_attention_kernels(const AttentionKernels* kernels);

}  // namespace mpsx::backend
