#include "backend/attention.h"

#include <ATen/Context.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "backend/alias.h"
#include "backend/vendor.h"

namespace mpsx::backend {
namespace {

using at::Tensor;
constexpr const char* kLibrary = "ATen flash attention";

const AttentionKernels* kernels = nullptr;
bool prefers_kernels() { return kernels && !prefers_vendor(); }

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
               double dropout, bool causal, std::optional<double> scale, bool grouped) {
  if (prefers_kernels()) {
    const bool heads_fit = query.dim() == 4 && key.dim() == 4 && (grouped || query.size(1) == key.size(1));
    const bool taken = at::globalContext().userEnabledOverrideableSDP() && heads_fit &&
                       kernels->take(query, key, value, mask, dropout);
    return static_cast<int64_t>(taken ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
  }
  CpuAliases a;
  const auto chosen = static_cast<sdp::SDPBackend>(
      at::_fused_sdp_choice(a.cpu(query), a.cpu(key), a.cpu(value), a.cpu(mask), dropout, causal, scale, grouped));
  return static_cast<int64_t>(chosen == sdp::SDPBackend::flash_attention ? sdp::SDPBackend::overrideable
                                                                         : sdp::SDPBackend::math);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& bias, double dropout,
    bool causal, bool, std::optional<double> scale) {
  if (prefers_kernels()) {
    TORCH_CHECK(kernels->take(query, key, value, bias, dropout),
                "scaled_dot_product_attention: no kernel for a query of ", query.scalar_type(), " ", query.sizes(),
                ", a key of ", key.sizes(), " and a value of ", value.sizes());
    const auto r = kernels->forward(query, key, value, bias, dropout, causal, scale);
    const Tensor seed = at::scalar_tensor(r.seed, c10::kLong), offset = at::scalar_tensor(r.offset, c10::kLong);
    return {r.out, r.log_sum_exp, Tensor(), Tensor(), query.sym_size(2), key.sym_size(2), seed, offset, Tensor()};
  }
  static auto& route = runtime::route_entry("aten::scaled_dot_product_attention", runtime::Route::vendor, kLibrary);
  VendorCall call(route);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CpuAliases a;
  const Tensor q = a.cpu(query), k = a.cpu(key), v = a.cpu(value);
  const auto b = a.cpu(bias);
  a.check_same_device("scaled_dot_product_attention");
  auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, b, scale);
  // The flash kernel takes no dropout, so there is no random state to hand to the backward.
  Tensor seed = at::empty({}, at::dtype(c10::kLong)), offset = at::empty({}, at::dtype(c10::kLong));
  return {a.device(out), a.device(log_sum_exp), Tensor(), Tensor(), query.sym_size(2), key.sym_size(2), seed, offset,
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const Tensor& bias, std::array<bool, 4>,
                                                    const Tensor& out, const Tensor& log_sum_exp, const Tensor&,
                                                    const Tensor&, int64_t, int64_t, double dropout, bool causal,
                                                    const Tensor& seed, const Tensor& offset,
                                                    std::optional<double> scale) {
  if (prefers_kernels()) {
    const auto mask = bias.defined() ? std::optional(bias) : std::nullopt;
    AttentionKernels::Result done{out, log_sum_exp, 0, 0};
    if (dropout > 0) {  // without it callers have no random numbers to name
      done.seed = seed.item<int64_t>();
      done.offset = offset.item<int64_t>();
    }
    auto [grad_query, grad_key, grad_value] =
        kernels->backward(grad, query, key, value, mask, done, dropout, causal, scale);
    return {grad_query, grad_key, grad_value, Tensor()};
  }
  static auto& route =
      runtime::route_entry("aten::scaled_dot_product_attention_backward", runtime::Route::vendor, kLibrary);
  VendorCall call(route);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CpuAliases a;
  auto [grad_query, grad_key, grad_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      a.cpu(grad), a.cpu(query), a.cpu(key), a.cpu(value), a.cpu(out), a.cpu(log_sum_exp), dropout, causal,
      a.cpu(std::optional(bias)), scale);
  return {a.device(grad_query), a.device(grad_key), a.device(grad_value), Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", backward);
}

}  // namespace

void set_attention_kernels(const AttentionKernels* k) { kernels = k; }

int64_t fused_sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                         double dropout, bool causal, std::optional<double> scale, bool grouped) {
  return choice(query, key, value, mask, dropout, causal, scale, grouped);
}

}  // namespace mpsx::backend

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &mpsx::backend::fused_sdp_choice)
}
