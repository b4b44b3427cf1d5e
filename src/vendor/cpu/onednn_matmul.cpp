#include "vendor/cpu/onednn_matmul.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/setting.h"

// ATen's own way to oneDNN, which it takes for halves and not for floats of full precision. libtorch_cpu exports it and
// ships no header of it; weak, since a later torch may not.
#ifdef __linux__
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta,
                                         float alpha);
}
#endif

namespace mpsx::vendor {
namespace {

// Below this many multiplications, or this few rows or columns, MKL is as fast. For a new shape oneDNN compiles a
// kernel, in milliseconds and up to 1 MiB, of which it keeps 1,024: too much for small products of changing lengths.
constexpr int64_t kLeastWork = int64_t(1) << 26, kLeastSide = 4;

// result = alpha * a b + beta * result; null where there is none.
using Multiply = void (*)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta, float alpha);
Multiply multiply() {
#ifdef __linux__
  return &at::native::mkldnn_matmul;
#else
  return nullptr;
#endif
}

// ATen refuses its own way to oneDNN on other CPUs.
bool is_possible() {
#if defined(__x86_64__) && defined(__linux__)
  return multiply() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return multiply() != nullptr;
#endif
}

bool is_better() {
#if defined(__x86_64__) && defined(__linux__)
  return is_possible() && !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

// Throws where MPSX_GEMM has another value, or asks for what this CPU cannot run.
bool is_wanted() {
  static const bool wanted = [] {
    const bool onednn = backend::setting("MPSX_GEMM", "onednn", "mkl").value_or(is_better());
    TORCH_CHECK(!onednn || is_possible(), "MPSX_GEMM=onednn: ATen's way to oneDNN needs AVX-512 (bw, dq and vl)");
    return onednn;
  }();
  return wanted;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
         b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool takes(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const auto is_float = [](const at::Tensor& t) { return t.defined() && t.scalar_type() == at::kFloat; };
  if (!is_wanted() || !is_float(a) || !is_float(b) || !is_float(out) || !at::globalContext().userEnabledMkldnn())
    return false;
  const auto rank = a.dim();
  if (b.dim() != rank || out.dim() != rank || (rank != 2 && rank != 3)) return false;
  const int64_t batch = rank == 3 ? a.size(0) : 1, m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (b.size(-2) != k || out.size(-2) != m || out.size(-1) != n) return false;
  if (rank == 3 && (b.size(0) != batch || out.size(0) != batch)) return false;
  return std::min(m, n) >= kLeastSide && batch * m * n * k >= kLeastWork && out.is_contiguous() &&
         !shares_memory(out, a) && !shares_memory(out, b);
}

bool product(torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const at::Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor(), out = arguments[2].toTensor();
  if (!takes(a, b, out)) return false;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  multiply()(a, b, out, 0, 1);
  torch::jit::drop(stack, 3);
  stack.emplace_back(out);
  return true;
}

// out = beta * self + alpha * a b
bool product_and_sum(torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 6);
  const at::Tensor &self = arguments[0].toTensor(), &a = arguments[1].toTensor(), &b = arguments[2].toTensor(),
                   out = arguments[5].toTensor();
  if (!takes(a, b, out) || self.scalar_type() != at::kFloat) return false;
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
    {{"mm.out", product}, {"bmm.out", product}, {"addmm.out", product_and_sum}, {"baddbmm.out", product_and_sum}}};

}  // namespace

backend::CpuKernel* onednn_matmul(std::string_view op) {
  const auto found = std::ranges::find(kKernels, op, [](const auto& kernel) { return kernel.first; });
  return found == kKernels.end() ? nullptr : found->second;
}

}  // namespace mpsx::vendor
