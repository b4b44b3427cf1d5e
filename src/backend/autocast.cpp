// Autocast, based on PyTorch's own lists of operators.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <string_view>

namespace at::autocast {
namespace {

// Returns whether ops/matmul/linear.cpp registers the operator.
constexpr bool is_layer(std::string_view op) { return op == "linear" || op == "addmm"; }

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define MPSX_LOWER_PRECISION(...) \
  if constexpr (!is_layer(#__VA_ARGS__)) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(MPSX_LOWER_PRECISION)
#define MPSX_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(MPSX_FP32)
#define MPSX_FP32_SET_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(MPSX_FP32_SET_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define MPSX_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(MPSX_PROMOTE)
}

}  // namespace at::autocast
