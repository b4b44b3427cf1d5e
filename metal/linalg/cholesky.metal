// The Cholesky factor of a diagonal block: the lower triangle of a, of which the strides may be those of a transpose.
#include "lib/instantiate.h"
#include "linalg/field.h"

// One threadgroup per matrix of the batch. Columns stay unscaled until the end, so that a step needs one barrier.
// info: the order of the first leading minor that is not positive, counted from 1, or 0.
template <typename T>
kernel void cholesky_block(device T* matrices [[buffer(0)]], device int* info [[buffer(1)]],
                           constant CholeskyParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  enum : uint { kPitch = Block<T>::rows + 1 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup T a[Block<T>::rows * kPitch];
  const uint n = p.n, batch = g.group.x;
  device T* matrix = matrices + long(batch) * p.a.batch;
  load_tile(a, kPitch, matrix, p.a.row, p.a.column, n, n, g);
  tg_barrier();
  const Spread s = spread_over(kSolveColumns, g);
  uint factored = n;
  for (uint k = 0; k < n; ++k) {
    const float pivot = real_part(a[k * kPitch + k]);
    if (!(pivot > 0.0f)) {
      factored = k;
      break;
    }
    for (uint j = k + 1 + s.column; j < n; j += s.columns) {
      const T multiplier = conjugate(a[j * kPitch + k]) / pivot;
      for (uint i = k + 1 + s.row; i < n; i += s.rows)
        if (i >= j) a[i * kPitch + j] = product_sum(a[i * kPitch + k], -multiplier, a[i * kPitch + j]);
    }
    tg_barrier();
  }
  const bool down = p.a.row == 1;
  for (uint e = g.index; e < n * n; e += g.count) {
    const uint i = down ? e % n : e / n, j = down ? e / n : e % n;
    if (i < j) continue;
    T value = a[i * kPitch + j];
    if (j < factored) {
      const float root = precise::sqrt(real_part(a[j * kPitch + j]));
      value = i == j ? field_number<T>(root, 0.0f) : value / root;
    }
    matrix[long(i) * p.a.row + long(j) * p.a.column] = value;
  }
  if (g.index == 0 && (p.offset == 0 || (factored < n && info[batch] == 0)))
    info[batch] = factored < n ? int(p.offset + factored + 1) : 0;
}

#define MPSX_CHOLESKY(T, TAG) MPSX_KERNEL("cholesky_block_" #TAG, cholesky_block<T>)
MPSX_CHOLESKY(float, f32)
MPSX_CHOLESKY(float2, c64)
