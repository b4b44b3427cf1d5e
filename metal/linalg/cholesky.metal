// Blocked Cholesky factorization of the lower triangle of a matrix, which may be stored transposed.
//
// Each step is one dispatch with two groups of threadgroups. The first group applies the update from panel k - 1 to
// panel k and factors panel k. Each of its threadgroups factors the diagonal block redundantly and then solves for its
// own rows below the block. The second group applies the update from panel k - 1 to the trailing matrix, to the right
// of panel k.
#include "lib/instantiate.h"
#include "linalg/cholesky_tile.h"

template <typename T>
struct CholeskyTile {
  enum : uint {
    n = Block<T>::rows,
    panel_pitch = n + kCholeskyRows + kMicro,
    pitch = n + kMicro,
    elements = (n + kCholeskyPanelDepth) * panel_pitch,
  };
};

template <typename T>
inline void factor_panel(device T* matrix, device T* diagonal, device int* info, constant CholeskyParams& p,
                         threadgroup T* tile, GroupThread g) {
  enum : uint { kN = CholeskyTile<T>::n, kPitch = CholeskyTile<T>::panel_pitch };
  threadgroup T* previous = tile + kN * kPitch;
  const uint n = min(uint(kN), p.n - p.offset), padded_n = (n + kPivots - 1) / kPivots * kPivots;
  // First row below the diagonal block. Used only if n == kN.
  const uint first = p.offset + n + g.group.x * kCholeskyRows;
  const uint below = first < p.n ? min(uint(kCholeskyRows), p.n - first) : 0;
  const uint rows = n + below, padded_rows = padded_n + (below + kMicro - 1) / kMicro * kMicro;
  device T* corner = matrix + (long(p.offset) * p.a.row + long(p.offset) * p.a.column);
  MatrixView<device const T*> panel = {corner, p.a.row, p.a.column, n, long(g.group.x * kCholeskyRows) * p.a.row};
  const bool column_major = p.a.row == 1;
  copy_tile(matrix_view(tile, 1, kPitch), panel, rows, n, column_major, g);
  pad_tile(tile, kPitch, rows, n, padded_rows, padded_n, g);
  for (uint left = p.offset > 0 ? uint(kN) : 0; left > 0; left -= kCholeskyPanelDepth) {
    panel.data = corner - long(left) * p.a.column;
    copy_tile(matrix_view(previous, 1, kPitch), panel, rows, kCholeskyPanelDepth, column_major, g);
    pad_tile(previous, kPitch, rows, kCholeskyPanelDepth, padded_rows, kCholeskyPanelDepth, g);
    tg_barrier();
    rank_update<kCholeskyPanelDepth>(tile, kPitch, previous, previous, kPitch, padded_rows, padded_n, true, g);
    tg_barrier();
  }
  tg_all_barrier();
  const uint factored = factor_tile(tile, kPitch, padded_rows, padded_n, g);
  if (below > 0) store_columns(corner + (panel.jump + long(n) * p.a.row), p.a, tile + n, kPitch, below, n, g);
  if (g.group.x > 0) return;
  // Store to a separate buffer, because other threadgroups may still be reading the diagonal block.
  store_columns(diagonal, p.diagonal, tile, kPitch, n, n, g);
  if (g.index > 0) return;
  if (factored < n) {
    if (p.offset == 0 || *info == 0) *info = int(p.offset + factored + 1);
  } else if (p.offset == 0) {
    *info = 0;
  }
}

template <typename T>
inline void update_trailing(device T* matrix, constant CholeskyParams& p, threadgroup T* tile, GroupThread g) {
  enum : uint { kN = CholeskyTile<T>::n, kPitch = CholeskyTile<T>::pitch };
  threadgroup T *left = tile + kN * kPitch, *right = left + kCholeskyDepth * kPitch;
  const uint start = p.offset + kN, size = (p.n - start + kN - 1) / kN;
  const LowerTile at = lower_tile(g.group.x - p.panel_tiles, size, size);
  if (!at.exists) return;
  const uint row = start + at.row * kN, column = start + at.column * kN;
  const uint rows = min(uint(kN), p.n - row), columns = min(uint(kN), p.n - column);
  device T* out = matrix + (long(row) * p.a.row + long(column) * p.a.column);
  device const T* panel = matrix + long(p.offset - kN) * p.a.column;
  load_columns(tile, kPitch, out, p.a, rows, columns, g);
  pad_tile(tile, kPitch, rows, columns, kN, kN, g);
  for (uint k = 0; k < kN; k += kCholeskyDepth) {
    device const T* slice = panel + long(k) * p.a.column;
    load_columns(left, kPitch, slice + long(row) * p.a.row, p.a, rows, kCholeskyDepth, g);
    pad_tile(left, kPitch, rows, kCholeskyDepth, kN, kCholeskyDepth, g);
    load_columns(right, kPitch, slice + long(column) * p.a.row, p.a, columns, kCholeskyDepth, g);
    pad_tile(right, kPitch, columns, kCholeskyDepth, kN, kCholeskyDepth, g);
    tg_all_barrier();
    rank_update<kCholeskyDepth>(tile, kPitch, left, right, kPitch, kN, kN, at.row == at.column, g);
    tg_barrier();
  }
  store_columns(out, p.a, tile, kPitch, rows, columns, g);
}

// `info` receives 0, or the 1-based order of the first leading minor that is not positive.
// Grid: x covers the threadgroups of the panel and then those of the trailing matrix. y is the batch index.
template <typename T>
kernel void cholesky_step(device T* matrices [[buffer(0)]], device T* diagonals [[buffer(1)]],
                          device int* info [[buffer(2)]], constant CholeskyParams& p [[buffer(3)]],
                          MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float4 memory[CholeskyTile<T>::elements * sizeof(T) / sizeof(float4)];
  threadgroup T* tile = (threadgroup T*)memory;
  const uint batch = g.group.y;
  device T* matrix = matrices + long(batch) * p.a.batch;
  if (g.group.x < p.panel_tiles)
    factor_panel(matrix, diagonals + long(batch) * p.diagonal.batch, info + batch, p, tile, g);
  else
    update_trailing(matrix, p, tile, g);
}

#define MPSX_CHOLESKY(T, TAG) MPSX_KERNEL("cholesky_step_" #TAG, cholesky_step<T>)
MPSX_CHOLESKY(float, f32)
MPSX_CHOLESKY(float2, c64)
