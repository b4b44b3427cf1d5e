#include "ops/linalg/linalg.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ops/matmul/matmul.h"

namespace mpsx::ops::linalg {
namespace {

// Returns a view without the conjugate bit. Bypasses the dispatcher, because a factorization creates hundreds of views.
Tensor view(const Tensor& t, int64_t offset, std::array<int64_t, 3> sizes, std::array<int64_t, 3> strides) {
  constexpr c10::DispatchKeySet lazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  Tensor result = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(t.storage()),
                                                           t.key_set() - lazy, t.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, t.storage_offset() + offset);
  return result;
}

MatmulStrides matmul_strides(const Tensor& t) { return {t.stride(1), t.stride(2), t.size(0) > 1 ? t.stride(0) : 0}; }

}  // namespace

Tensor matrices(const Tensor& t) {
  if (t.dim() == 3) return t;
  return t.dim() == 2 ? t.unsqueeze(0) : t.flatten(0, -3);
}

Tensor written_matrices(const char* op, const Tensor& t) {
  const Tensor result = matrices(t);
  TORCH_INTERNAL_ASSERT(result.is_alias_of(t), op, ": expected a result with batch dimensions that can be joined");
  return result;
}

Tensor part(const Tensor& t, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  return view(t, row * t.stride(1) + column * t.stride(2), {t.size(0), rows, columns},
              {t.stride(0), t.stride(1), t.stride(2)});
}

Tensor transposed(const Tensor& t) {
  return view(t, 0, {t.size(0), t.size(2), t.size(1)}, {t.stride(0), t.stride(2), t.stride(1)});
}

Tensor adjoint(const Tensor& t) { return t.is_complex() ? transposed(t).conj() : transposed(t); }

int64_t panel_threads(const runtime::KernelEntry& kernel) {
  const driver::Traits& traits = runtime::driver().traits();
  if (traits.one_thread_groups) return 1;
  return std::min<uint32_t>(traits.threadgroup_size ? traits.threadgroup_size : kPanelThreads,
                            kernel.kernel->max_threads);
}

void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, float alpha, float beta) {
  if (out.numel() == 0) return;
  if (out.is_complex()) return gemm(out, a, b, {alpha, beta, out});
  // The matmul kernels write row-major results, so compute the transpose of a column-major result.
  if (out.stride(1) == 1 && out.stride(2) != 1)
    return multiply_add(transposed(out), transposed(b), transposed(a), alpha, beta);
  MatmulParams p{};
  p.a = matmul_strides(a);
  p.b = matmul_strides(b);
  p.out = p.c = matmul_strides(out);
  p.M = uint32_t(out.size(1));
  p.N = uint32_t(out.size(2));
  p.K = uint32_t(a.size(2));
  set_alpha_beta(p, out, alpha, beta);
  launch_gemm(out, a, b, out, p);
}

}  // namespace mpsx::ops::linalg
