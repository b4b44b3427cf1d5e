// Launches the kernels in metal/linalg/cholesky.metal.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/linalg/cholesky.h"
#include "ops/linalg/linalg.h"

namespace mpsx::ops::linalg {
namespace {

uint32_t tiles_of(int64_t size, int64_t tile) { return uint32_t(ceil_div(uint64_t(size), uint64_t(tile))); }

// Factors one panel at a time. The factor of a diagonal block goes to scratch memory, because several threadgroups read
// the block while one of them writes the factor. Only the last block, which has no rows below it, is factored in place.
void cholesky(const Tensor& self, const Tensor& info, bool upper) {
  static const KernelSet kernels("cholesky_step");
  if (self.numel() == 0) return;
  checked_size("cholesky", self.size(-1));
  // To get an upper factor, compute the lower factor on transposed views.
  const Tensor batch = written_matrices("cholesky", self), a = upper ? transposed(batch) : batch;
  const int64_t n = a.size(1), block = block_rows(a), blocks = tiles_of(n, block) - 1;
  const bool column_major = a.stride(1) == 1;
  const Tensor diagonals = at::empty({a.size(0), blocks, block, block}, a.options());
  for (int64_t k = 0, first = 0; first < n; ++k, first += block) {
    const int64_t last = std::min(first + block, n), trailing = n - last;
    const uint32_t panel = std::max(tiles_of(trailing, kCholeskyRows), 1u), size = tiles_of(trailing, block);
    const uint32_t updates = k > 0 ? (size + 1) / 2 * (size + 1) : 0;
    const Tensor diagonal = k < blocks ? diagonals.select(1, k) : part(a, first, first, last - first, last - first);
    MatrixStrides strides = strides_of(diagonal);
    if (k < blocks && column_major) std::swap(strides.row, strides.column);
    const CholeskyParams p{strides_of(a), strides, uint32_t(n), uint32_t(first), panel, 0};
    Launch(kernels.get(tag_of(a)))
        .outputs(a, diagonal, info)
        .bytes(p)
        .groups({panel + updates, uint32_t(a.size(0))}, kCholeskyThreads)
        .work(uint64_t(block) * block * (block + kCholeskyRows))
        .run();
  }
  if (blocks == 0) return;
  const int64_t step = block * (a.stride(1) + a.stride(2));
  a.as_strided({a.size(0), blocks, block, block}, {a.stride(0), step, a.stride(1), a.stride(2)}, a.storage_offset())
      .copy_(column_major ? diagonals.mT() : diagonals);
}

// Overwrites the Cholesky factor in `result` with the inverse of the matrix that was factored.
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
  // A = L L^H, or U^H U if `upper`. Pass L^H or U^H as a transposed view and let the solver conjugate it.
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
