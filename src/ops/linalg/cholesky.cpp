// Launchers of metal/linalg/cholesky.metal.
#include <ATen/native/BatchLinearAlgebra.h>

#include <algorithm>

#include "ops/linalg/cholesky.h"
#include "ops/linalg/linalg.h"

namespace mpsx::ops::linalg {
namespace {

// Columns that are factored before all columns to their right are updated, in one product that reads and writes those
// once.
constexpr int64_t kCholeskyPanel = 256;

void factor_block(const Tensor& a, const Tensor& info, int64_t offset) {
  static const KernelSet kernels("cholesky_block");
  const CholeskyParams p{strides_of(a), uint32_t(a.size(1)), uint32_t(offset)};
  Launch(kernels.get(tag_of(a)))
      .pointer(a.mutable_data_ptr())
      .pointer(info.mutable_data_ptr())
      .bytes(p)
      .groups({uint32_t(a.size(0))}, p.n > 32 ? 512 : 256)
      .work(uint64_t(p.n) * p.n * p.n / 3 + 1)
      .run();
}

// The factor takes the place of a triangle; what is in the other one afterwards is of no use.
void cholesky(const Tensor& self, const Tensor& info, bool upper) {
  if (self.numel() == 0) return;
  checked_size("cholesky", self.size(-1));
  // An upper factor is the transpose of the lower factor of the transpose.
  const Tensor batch = written_matrices("cholesky", self), a = upper ? transposed(batch) : batch;
  const int64_t n = a.size(1), block = block_rows(a);
  // Subtracts what columns [first, last) contribute to columns [last, end), from row `last` on.
  const auto update = [&](int64_t first, int64_t last, int64_t end) {
    const Tensor left = part(a, last, first, n - last, last - first);
    const Tensor top = part(left, 0, 0, end - last, last - first);
    multiply_add(part(a, last, last, n - last, end - last), left, adjoint(top), -1, 1);
  };
  for (int64_t first = 0; first < n; first += block) {
    const int64_t last = std::min(first + block, n), panel = first / kCholeskyPanel * kCholeskyPanel;
    const int64_t end = std::min(panel + kCholeskyPanel, n);
    const Tensor diagonal = part(a, first, first, last - first, last - first);
    factor_block(diagonal, info, first);
    if (last == n) break;
    solve_triangular(diagonal, transposed(part(a, last, first, n - last, last - first)), false, false, true);
    if (last < end)
      update(first, last, end);
    else
      update(panel, end, n);
  }
}

// The inverse takes the place of the factor, all of it.
Tensor& cholesky_inverse(Tensor& result, Tensor& info, bool upper) {
  info.zero_();
  if (result.numel() == 0) return result;
  const Tensor factor = matrices(result.clone());
  result.zero_();
  result.diagonal(0, -2, -1).fill_(1);
  solve_with_cholesky(factor, written_matrices("cholesky_inverse", result), upper);
  return result;
}

}  // namespace

void solve_with_cholesky(const Tensor& factor, const Tensor& b, bool upper) {
  // L L^H, or U^H U, whose first factor is the transpose of conj(U).
  if (upper) {
    solve_triangular(transposed(factor), b, false, false, true);
    solve_triangular(factor, b, true, false, false);
  } else {
    solve_triangular(factor, b, false, false, false);
    solve_triangular(transposed(factor), b, true, false, true);
  }
}

}  // namespace mpsx::ops::linalg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &mpsx::ops::linalg::cholesky)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &mpsx::ops::linalg::cholesky_inverse)
}  // namespace at::native
