// Launches the kernels in metal/linalg/triangular.metal.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/TransposeType.h>

#include <algorithm>

#include "ops/linalg/linalg.h"

namespace mpsx::ops::linalg {
namespace {

void solve_block(const Tensor& a, const Tensor& b, bool upper, bool unit, bool conjugate) {
  static const KernelSet kernels("triangular_block");
  const TriangularParams p{strides_of(a), strides_of(b), uint32_t(b.size(1)), uint32_t(b.size(2)),
                           upper,         unit,          conjugate,           0};
  Launch(kernels.get(tag_of(b)))
      .outputs(b)
      .inputs(a)
      .bytes(p)
      .groups({uint32_t(ceil_div(p.columns, kSolveColumns)), uint32_t(b.size(0))}, 256)
      .work(uint64_t(p.n) * p.n * kSolveColumns / 2)
      .run();
}

}  // namespace

// Solves by recursive halving: each row of b is rounded once per recursion level, not once per block.
void solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit, bool conjugate) {
  if (b.numel() == 0) return;
  checked_size("solve_triangular", std::max(b.size(1), b.size(2)));
  const int64_t n = b.size(1), columns = b.size(2), block = block_rows(b);
  if (n <= block) return solve_block(a, b, upper, unit, conjugate);
  const int64_t half = (n / block + 1) / 2 * block, rest = n - half;
  const int64_t first = upper ? half : 0, second = half - first;  // the half solved first starts at `first`
  const Tensor x = part(b, first, 0, upper ? rest : half, columns);
  const Tensor y = part(b, second, 0, upper ? half : rest, columns);
  const Tensor factor = part(a, second, first, y.size(1), x.size(1));
  solve_triangular(part(a, first, first, x.size(1), x.size(1)), x, upper, unit, conjugate);
  multiply_add(y, conjugate && a.is_complex() ? factor.conj() : factor, x, -1, 1);
  solve_triangular(part(a, second, second, y.size(1), y.size(1)), y, upper, unit, conjugate);
}

// Solves op(A) X = B if `left` is true, or X op(A) = B otherwise, and overwrites B with X.
static void triangular_solve(const Tensor& A, const Tensor& B, bool left, bool upper,
                             at::native::TransposeType transpose, bool unitriangular) {
  if (B.numel() == 0) return;
  using at::native::TransposeType;
  Tensor a = matrices(A), b = written_matrices("triangular_solve", B);
  // Like BLAS, treat the matrix as column-major.
  if (a.stride(1) != 1) a = transposed(a);
  const bool transposes = transpose != TransposeType::NoTranspose;
  // Rewrite X op(A) = B as op(A)^T X^T = B^T.
  if (transposes == left) {
    a = transposed(a);
    upper = !upper;
  }
  if (!left) b = transposed(b);
  solve_triangular(a, b, upper, unitriangular, transpose == TransposeType::ConjTranspose);
}

}  // namespace mpsx::ops::linalg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &mpsx::ops::linalg::triangular_solve)
}  // namespace at::native
