// gather, positions of several index tensors, tril and triu. Bits are moved, named by their size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/index.h"

// Operands: output, input (with stride 0 along the indexed dimension), index, which has been checked.
template <typename T>
kernel void gather(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                   device const long* index [[buffer(2)]], constant IndexParams& p [[buffer(3)]],
                   uint3 gid [[thread_position_in_grid]]) {
  device const T* from = in + row_offset(p, 1, gid);
  device const long* at = index + row_offset(p, 2, gid);
  const long k = known_index(at[long(gid.x) * p.stride[2][0]], p.dim_size, p.negative != 0);
  (out + row_offset(p, 0, gid))[long(gid.x) * p.stride[0][0]] = from[long(gid.x) * p.stride[1][0] + k * p.dim_stride];
}

// One of several index tensors, as a share of the position in the dimensions that they index together.
kernel void index_position(device long* out [[buffer(0)]], device const long* index [[buffer(1)]],
                           constant IndexParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  device long* to = out + row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0];
  const long k = known_index((index + row_offset(p, 1, gid))[long(gid.x) * p.stride[1][0]], p.dim_size, true);
  const long share = k * p.dim_stride;
  *to = p.add ? *to + share : share;
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
  MPSX_EACH_LANE(T, i, gid.x, p.columns) to[i] = (i < edge) == upper ? T(0) : from[i];
}

#define MOVE(T, TAG)                     \
  MPSX_KERNEL("gather_" #TAG, gather<T>) \
  MPSX_KERNEL("triangle_" #TAG, triangle<T>)
MOVE(char, i8)
MOVE(short, i16)
MOVE(int, i32)
MOVE(long, i64)
