// flip, tril and triu. Bits are moved, named by their size.
#include "index/params.h"
#include "lib/index.h"
#include "lib/instantiate.h"

// Rows back to front: the output is contiguous along x, the input has stride -1.
template <typename T>
kernel void flip_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                      constant IndexParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  device const T* from = in + row_offset(p, 1, gid);
  (out + row_offset(p, 0, gid))[gid.x] = from[-long(gid.x)];
}

// tril and triu: gid = (columns, row, matrix); both tensors are dense.
template <typename T>
kernel void triangle(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant TriangleParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong row = (ulong(gid.z) * p.rows + gid.y) * p.columns;
  device const T* from = in + row;
  device T* to = out + row;
  const bool upper = p.upper != 0;
  // The first column right of what tril keeps, or that triu does.
  const uint edge = uint(clamp(long(gid.y) + p.diagonal + (upper ? 0 : 1), 0L, long(p.columns)));
  MPSX_EACH_LANE(T, i, gid.x, p.columns) {
    const T value = from[i];  // a load under a condition would keep the loop from being vectorized
    to[i] = (i < edge) == upper ? T(0) : value;
  }
}

#define MOVE(T, TAG)                             \
  MPSX_KERNEL("flip_rows_" #TAG, flip_rows<T>)   \
  MPSX_KERNEL("triangle_" #TAG, triangle<T>)
MOVE(char, i8)
MOVE(short, i16)
MOVE(int, i32)
MOVE(long, i64)
