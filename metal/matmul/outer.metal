// Outer product (addr): beta * c + alpha * a b^T. With K = 1, the tiling of a GEMM would cost more than the arithmetic.
#include "lib/compute.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "matmul/params.h"

// S is the stride along a row of b, c and out: 1 or kAnyStride. The kernel always reads c, because a conditional load
// would prevent vectorization. If there is no beta, the launcher passes `out` as c. gid = (column, row).
template <typename T, int S>
kernel void outer(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                  device const T* c [[buffer(3)]], constant MatmulParams& p [[buffer(4)]],
                  uint2 gid [[thread_position_in_grid]]) {
  const long x = long(gid.x);
  const float alpha_a = p.alpha * float(a[long(gid.y) * p.a.row]);
  device const T* c_row = c + long(gid.y) * p.c.row;
  device T* to = out + long(gid.y) * p.out.row;
  const float ab = alpha_a * float(b[x * (S == 1 ? 1 : p.b.column)]);
  const float old = float(c_row[x * (S == 1 ? 1 : p.c.column)]);
  to[x * (S == 1 ? 1 : p.out.column)] = T(p.has_c ? p.beta * old + ab : ab);
}

#define OUTER(T, TAG, ...)                      \
  MPSX_KERNEL("outer_dense_" #TAG, outer<T, 1>) \
  MPSX_KERNEL("outer_strided_" #TAG, outer<T, kAnyStride>)
MPSX_FOR_FLOAT(OUTER, )
