// Batches of matrices for the launchers of this family. Every function accepts 3-D tensors (batch, rows, columns) of
// any strides.
#pragma once

#include "linalg/params.h"
#include "ops/op.h"

namespace mpsx::ops::linalg {

// Whether the kernels support the dtype. PyTorch passes lazily conjugated tensors to some of these operators.
inline bool has_kernel(const Tensor& t) {
  return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1 &&
         (t.scalar_type() == at::kFloat || t.scalar_type() == at::kComplexFloat);
}
template <typename... Rest>
bool have_kernels(const Tensor& first, const Rest&... rest) {
  return has_kernel(first) && (true && ... && has_kernel(rest));
}

// Flattens the batch dimensions into one; copies where they cannot be joined.
Tensor matrices(const Tensor& t);
// Like batched(), for a tensor that is written.
Tensor written_matrices(const char* op, const Tensor& t);

// The rows x columns submatrix at (row, column).
Tensor part(const Tensor& t, int64_t row, int64_t column, int64_t rows, int64_t columns);
Tensor transposed(const Tensor& t);
// The conjugate transpose.
Tensor adjoint(const Tensor& t);

inline MatrixStrides strides_of(const Tensor& t) { return {t.stride(1), t.stride(2), t.stride(0)}; }
// Rows of the diagonal blocks that kernels hold in threadgroup memory.
inline int64_t block_rows(const Tensor& t) { return t.is_complex() ? kComplexBlock : kFloatBlock; }
inline uint32_t checked_size(const char* op, int64_t n) {
  TORCH_CHECK(n < (int64_t(1) << 30), op, ": expected sizes below 2^30, got ", n);
  return uint32_t(n);
}

// The actual threadgroup size when kPanelThreads are requested.
int64_t panel_threads(const runtime::KernelEntry& kernel);

// out = alpha a b + beta out. `out` may share memory with a and b, but no elements.
void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, float alpha, float beta);

// Solves a X = b in place in b for a triangular a, or conj(a) if `conjugate`.
void solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit, bool conjugate);

}  // namespace mpsx::ops::linalg
