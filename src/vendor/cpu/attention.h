// scaled_dot_product_attention, using ATen's flash attention for CPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace mpsx::vendor {

// Returns whether flash attention supports these arguments.
bool accepts_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
                       bool grouped);

// Returns the output, and the logsumexp that the backward pass needs.
std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                             const std::optional<at::Tensor>& mask, double dropout, bool causal,
                                             std::optional<double> scale);

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const at::Tensor& grad, const at::Tensor& query,
                                                                  const at::Tensor& key, const at::Tensor& value,
                                                                  const at::Tensor& out, const at::Tensor& log_sum_exp,
                                                                  const std::optional<at::Tensor>& mask, double dropout,
                                                                  bool causal, std::optional<double> scale);

}  // namespace mpsx::vendor
