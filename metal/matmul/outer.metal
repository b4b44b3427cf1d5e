// beta c + alpha a b^T of two vectors: products of depth 1, of which tiles would cost more than they.
#include "lib/compute.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "matmul/params.h"

// gid = (column, row). S: the strides along a row of b, c and the result, 1 or any. Without beta c is read all the same
// (the launcher has it point to the result), or nothing would be vectorised.
template <typename T, int S>
kernel void outer(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                  device const T* c [[buffer(3)]], constant MatmulParams& p [[buffer(4)]],
                  uint2 gid [[thread_position_in_grid]]) {
  const long x = long(gid.x);
  const float scaled = p.alpha * float(a[long(gid.y) * p.a.row]);
  device const T* added = c + long(gid.y) * p.c.row;
  device T* to = out + long(gid.y) * p.out.row;
  const float product = scaled * float(b[x * (S == 1 ? 1 : p.b.column)]);
  const float before = float(added[x * (S == 1 ? 1 : p.c.column)]);
  to[x * (S == 1 ? 1 : p.out.column)] = T(p.has_c ? p.beta * before + product : product);
}

#define OUTER(T, TAG, ...)                                \
  MPSX_KERNEL("outer_rows_" #TAG, outer<T, 1>)            \
  MPSX_KERNEL("outer_any_" #TAG, outer<T, kAnyStride>)
MPSX_FOR_FLOAT(OUTER, )
