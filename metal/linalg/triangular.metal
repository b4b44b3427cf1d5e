// Solves triangular systems whose matrix fits in one block.
#include "lib/instantiate.h"
#include "linalg/field.h"

// Each threadgroup solves for kSolveColumns right-hand sides. Grid: (tiles of right-hand sides, batch).
template <typename T>
kernel void triangular_block(device T* right [[buffer(0)]], device const T* matrices [[buffer(1)]],
                             constant TriangularParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  enum : uint { kPitch = Block<T>::rows + 1, kXPitch = kSolveColumns + 1 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup T a[Block<T>::rows * kPitch], x[Block<T>::rows * kXPitch], sums[kSums * kXPitch];
  const uint n = p.n, first = g.group.x * kSolveColumns, columns = min(uint(kSolveColumns), p.columns - first);
  device const T* matrix = matrices + long(g.group.y) * p.a.batch;
  device T* b = right + (long(g.group.y) * p.b.batch + long(first) * p.b.column);
  for (TileWalk w = tile_walk(n, n, p.a.row, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    if (p.upper ? i > j : i < j) continue;
    const T value = matrix[long(i) * p.a.row + long(j) * p.a.column];
    a[i * kPitch + j] = p.conjugate ? conjugate(value) : value;
  }
  load_tile(x, kXPitch, b, p.b.row, p.b.column, n, columns, g);
  tg_all_barrier();
  solve_tile(a, kPitch, x, kXPitch, sums, n, columns, p.upper, p.unit, g);
  store_tile(b, p.b.row, p.b.column, x, kXPitch, n, columns, g);
}

#define MPSX_TRIANGULAR(T, TAG) MPSX_KERNEL("triangular_block_" #TAG, triangular_block<T>)
MPSX_TRIANGULAR(float, f32)
MPSX_TRIANGULAR(float2, c64)
