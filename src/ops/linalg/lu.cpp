// Launches the kernels in metal/linalg/lu.metal.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/native/TransposeType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/scatter.h>

#include <algorithm>

#include "ops/linalg/linalg.h"

namespace mpsx::ops::linalg {
namespace {

Launch& bind(Launch& launch, const Tensor& a, const Tensor& pivots) { return launch.outputs(a, pivots); }

// Factors the panel that consists of columns [first, first + columns) and all rows from `first` on.
void factor_panel(const KernelSet& kernels, const Tensor& a, const Tensor& pivots, const Tensor& info, int64_t first,
                  int64_t columns, uint32_t threads) {
  const Tensor panel = part(a, first, first, a.size(1) - first, columns);
  const LuParams p{strides_of(a), pivots.size(-1), uint32_t(panel.size(1)), uint32_t(columns), uint32_t(first), 0};
  Launch launch(kernels.get(tag_of(a)));
  bind(launch, panel, part(pivots, 0, first, 1, 1)).outputs(info).bytes(p);
  launch.groups({uint32_t(a.size(0))}, threads).work(uint64_t(p.rows) * columns * columns / 2 + 1).run();
}

// Returns the kernel for panels with `rows` rows. If there are few rows, the kernel keeps the panel in registers.
const KernelSet& panel_kernels(const Tensor& a, int64_t rows) {
  static const KernelSet any("lu_panel"), two("lu_panel_2"), four("lu_panel_4"), eight("lu_panel_8");
  if (a.is_complex()) return any;
  const int64_t threads = panel_threads(two.get(Tag::f32));
  return rows <= 2 * threads ? two : rows <= 4 * threads ? four : rows <= 8 * threads ? eight : any;
}

void swap_rows(const Tensor& a, const Tensor& pivots, int64_t first, int64_t panel) {
  static const KernelSet kernels("lu_swap");
  const int64_t last = first + panel, columns = a.size(2);
  const auto tiles = uint32_t(first / kSolveColumns + int64_t(ceil_div(uint64_t(columns - last), kSolveColumns)));
  const LuSwapParams p{strides_of(a),   pivots.size(-1),   uint32_t(first),
                       uint32_t(panel), uint32_t(columns), 0};
  Launch launch(kernels.get(tag_of(a)));
  bind(launch, a, pivots).bytes(p).groups({tiles, uint32_t(a.size(0))}, 256);
  launch.work(uint64_t(panel) * panel * kSolveColumns).run();
}

void lu_factor(const Tensor& self, const Tensor& all_pivots, const Tensor& info, bool pivot) {
  static const KernelSet tiles("lu_tile");
  TORCH_CHECK(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  if (self.numel() == 0) return;
  const Tensor a = written_matrices("lu_factor", self);
  const int64_t rows = a.size(1), columns = a.size(2), count = std::min(rows, columns);
  checked_size("lu_factor", std::max(rows, columns));
  const Tensor pivots = all_pivots.view({a.size(0), 1, count});
  if (rows * (columns | 1) * a.element_size() <= kTileBytes && columns <= 2 * kSolveColumns) {
    factor_panel(tiles, a, pivots, info, 0, columns, 256);
    return;
  }
  for (int64_t first = 0; first < count; first += kPanel) {
    const int64_t panel = std::min<int64_t>(kPanel, count - first), last = first + panel;
    factor_panel(panel_kernels(a, rows - first), a, pivots, info, first, panel, kPanelThreads);
    swap_rows(a, pivots, first, panel);
    if (last < rows && last < columns)
      multiply_add(part(a, last, last, rows - last, columns - last), part(a, last, first, rows - last, panel),
                   part(a, first, last, panel, columns - last), -1, 1);
  }
}

// Converts pivots (row swaps) to a permutation: permutation[i] is the original index of row i.
void launch_permutation(int64_t* permutation, const int* pivots, uint32_t batch, uint32_t count, uint32_t size) {
  static const KernelSet kernel("pivots_to_permutation");
  const PermutationParams p{count, size};
  Launch(kernel.get()).pointer(permutation).pointer(pivots).bytes(p).threads(size, batch).work(count).run();
}

// Solves op(A) X = B, overwriting B with X.
void lu_solve(const Tensor& factors, const Tensor& all_pivots, const Tensor& B, at::native::TransposeType transpose) {
  static const KernelSet kernels("lu_solve_block");
  using at::native::TransposeType;
  if (B.numel() == 0) return;
  const Tensor b = written_matrices("lu_solve", B);
  const int64_t n = b.size(1), batch = b.size(0);
  checked_size("lu_solve", std::max(n, b.size(2)));
  // Expand the factors and pivots to B's batch dimensions.
  auto batch_sizes = B.sizes().vec();
  batch_sizes.resize(size_t(B.dim() - 2));
  auto sizes = batch_sizes, pivot_sizes = batch_sizes;
  sizes.insert(sizes.end(), {n, n});
  pivot_sizes.push_back(n);
  const Tensor lu = matrices(factors.expand(sizes));
  const Tensor pivots = all_pivots.expand(pivot_sizes).contiguous().view({batch, n});
  const bool transposes = transpose != TransposeType::NoTranspose;
  const bool conjugate = transpose == TransposeType::ConjTranspose;
  const Tensor a = transposes ? transposed(lu) : lu;
  if (n <= block_rows(b)) {
    const LuSolveParams p{strides_of(a), strides_of(b), n, uint32_t(n), uint32_t(b.size(2)), transposes, conjugate};
    Launch launch(kernels.get(tag_of(b)));
    launch.outputs(b).inputs(a, pivots).bytes(p);
    launch.groups({uint32_t(ceil_div(p.columns, kSolveColumns)), uint32_t(batch)}, 256);
    launch.work(uint64_t(n) * uint64_t(n) * kSolveColumns).run();
    return;
  }
  const Tensor permutation = at::empty({batch, n, 1}, pivots.options().dtype(at::kLong));
  launch_permutation(permutation.mutable_data_ptr<int64_t>(), pivots.const_data_ptr<int>(), uint32_t(batch),
                     uint32_t(n), uint32_t(n));
  const Tensor index = permutation.expand(b.sizes());
  if (transposes) {
    solve_triangular(a, b, false, false, conjugate);
    solve_triangular(a, b, true, true, conjugate);
    b.copy_(b.scatter(1, index, b));
  } else {
    b.copy_(b.gather(1, index));
    solve_triangular(a, b, false, true, false);
    solve_triangular(a, b, true, false, false);
  }
}

// For each matrix, the iterator holds a permutation, initialized to the identity, and the pivots. Both are contiguous.
void unpack_pivots(at::TensorIterator& iterator, int64_t count, int64_t size) {
  if (iterator.numel() == 0 || size == 0) return;
  launch_permutation(static_cast<int64_t*>(iterator.data_ptr(0)), static_cast<const int*>(iterator.data_ptr(1)),
                     uint32_t(iterator.numel()), checked_size("lu_unpack", count), checked_size("lu_unpack", size));
}

}  // namespace
}  // namespace mpsx::ops::linalg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &mpsx::ops::linalg::lu_factor)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &mpsx::ops::linalg::lu_solve)
REGISTER_PRIVATEUSE1_DISPATCH(unpack_pivots_stub, &mpsx::ops::linalg::unpack_pivots)
}  // namespace at::native
