// Helpers for batches of matrices in the linalg launchers. Every function accepts 3-D tensors (batch, rows, columns)
// with any strides.
#pragma once

#include "linalg/params.h"
#include "ops/op.h"

namespace mpsx::ops::linalg {

// Returns whether the kernels support the dtype. Unlike is_plain(), accepts lazily conjugated tensors, because PyTorch
// passes them to some of these operators.
inline bool has_kernel(const Tensor& t) {
  return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1 &&
         (t.scalar_type() == at::kFloat || t.scalar_type() == at::kComplexFloat);
}
template <typename... Rest>
bool have_kernels(const Tensor& first, const Rest&... rest) {
  return has_kernel(first) && (true && ... && has_kernel(rest));
}

// Flattens the batch dimensions into one. Copies if they cannot be merged.
Tensor matrices(const Tensor& t);
// Like matrices(), but for a tensor that will be written. Throws if the batch dimensions cannot be merged without a
// copy.
Tensor written_matrices(const char* op, const Tensor& t);

// Returns the rows x columns submatrix that starts at (row, column).
Tensor part(const Tensor& t, int64_t row, int64_t column, int64_t rows, int64_t columns);
Tensor transposed(const Tensor& t);
Tensor adjoint(const Tensor& t);

inline MatrixStrides strides_of(const Tensor& t) { return {t.stride(1), t.stride(2), t.stride(0)}; }
// Returns the size of the square diagonal blocks that kernels keep in threadgroup memory.
inline int64_t block_rows(const Tensor& t) { return t.is_complex() ? kComplexBlock : kFloatBlock; }
inline uint32_t checked_size(const char* op, int64_t n) {
  TORCH_CHECK(n < (int64_t(1) << 30), op, ": expected sizes below 2^30, got ", n);
  return uint32_t(n);
}

// Returns the threadgroup size that the driver uses when kPanelThreads are requested.
int64_t panel_threads(const runtime::KernelEntry& kernel);

// Computes out = alpha * a @ b + beta * out. `out` may share its storage with a and b but must not overlap them.
void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, float alpha, float beta);

// Solves a X = b for a triangular matrix `a`, overwriting `b` with X. Uses conj(a) if `conjugate` is true.
void solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit, bool conjugate);

}  // namespace mpsx::ops::linalg
