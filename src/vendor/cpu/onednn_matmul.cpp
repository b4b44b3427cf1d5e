#include "vendor/cpu/onednn_matmul.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/setting.h"

// ATen's wrapper for oneDNN's matmul. ATen uses it for half precision but not for float32. libtorch_cpu exports it, but
// no header declares it. The declaration is weak, because a later PyTorch may not export it.
#ifdef __linux__
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta,
                                         float alpha);
}
#endif

namespace mpsx::vendor {
namespace {

// With fewer multiply-adds, rows or columns than this, MKL is just as fast. For each new shape, oneDNN compiles a
// kernel, which takes milliseconds and up to 1 MiB of memory, and it caches 1,024 of them. That is too expensive for
// small matmuls of varying shapes.
constexpr int64_t kMinMacs = int64_t(1) << 26, kMinDim = 4;

// Computes result = alpha * a @ b + beta * result. The pointer is null if the function is not available.
using Multiply = void (*)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta, float alpha);
Multiply multiply() {
#ifdef __linux__
  return &at::native::mkldnn_matmul;
#else
  return nullptr;
#endif
}

// Returns whether ATen's wrapper supports this CPU.
bool is_available() {
#if defined(__x86_64__) && defined(__linux__)
  return multiply() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return multiply() != nullptr;
#endif
}

bool is_faster_than_mkl() {
#if defined(__x86_64__) && defined(__linux__)
  return is_available() && !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

// Throws if MPSX_GEMM is invalid, or if it requests oneDNN on a CPU that does not support it.
bool is_enabled() {
  static const bool enabled = [] {
    const bool onednn = backend::setting("MPSX_GEMM", "onednn", "mkl").value_or(is_faster_than_mkl());
    TORCH_CHECK(!onednn || is_available(), "MPSX_GEMM=onednn: expected a CPU with AVX-512 (bw, dq and vl)");
    return onednn;
  }();
  return enabled;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
         b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool accepts(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const auto is_float = [](const at::Tensor& t) { return t.defined() && t.scalar_type() == at::kFloat; };
  if (!is_enabled() || !is_float(a) || !is_float(b) || !is_float(out) || !at::globalContext().userEnabledMkldnn())
    return false;
  const auto rank = a.dim();
  if (b.dim() != rank || out.dim() != rank || (rank != 2 && rank != 3)) return false;
  const int64_t batch = rank == 3 ? a.size(0) : 1, m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (b.size(-2) != k || out.size(-2) != m || out.size(-1) != n) return false;
  if (rank == 3 && (b.size(0) != batch || out.size(0) != batch)) return false;
  return std::min(m, n) >= kMinDim && batch * m * n * k >= kMinMacs && out.is_contiguous() && !shares_memory(out, a) &&
         !shares_memory(out, b);
}

bool matmul(torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const at::Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor(), out = arguments[2].toTensor();
  if (!accepts(a, b, out)) return false;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  multiply()(a, b, out, 0, 1);
  torch::jit::drop(stack, 3);
  stack.emplace_back(out);
  return true;
}

// Computes out = beta * self + alpha * a @ b.
bool addmm(torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 6);
  const at::Tensor &self = arguments[0].toTensor(), &a = arguments[1].toTensor(), &b = arguments[2].toTensor(),
                   out = arguments[5].toTensor();
  if (!accepts(a, b, out) || self.scalar_type() != at::kFloat) return false;
  const double beta = arguments[3].toScalar().toDouble(), alpha = arguments[4].toScalar().toDouble();
  if (alpha != 1 || (beta != 0 && beta != 1)) return false;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (beta != 0 && !self.is_same(out)) out.copy_(self);  // broadcasts
  multiply()(a, b, out, static_cast<float>(beta), 1);
  torch::jit::drop(stack, 6);
  stack.emplace_back(out);
  return true;
}

constexpr std::array<std::pair<std::string_view, backend::CpuKernel*>, 4> kKernels = {
    {{"mm.out", matmul}, {"bmm.out", matmul}, {"addmm.out", addmm}, {"baddbmm.out", addmm}}};

}  // namespace

backend::CpuKernel* onednn_matmul(std::string_view op) {
  const auto found = std::ranges::find(kKernels, op, [](const auto& kernel) { return kernel.first; });
  return found == kKernels.end() ? nullptr : found->second;
}

}  // namespace mpsx::vendor
