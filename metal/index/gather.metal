// gather, indexing by several tensors, flip: elements moved one by one. Bits are moved, named by their size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/copy_run.h"
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

template <typename T>
kernel void move(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant IndexParams& p [[buffer(2)]],
                 uint3 gid [[thread_position_in_grid]]) {
  (out + row_offset(p, 0, gid))[long(gid.x) * p.stride[0][0]] = (in + row_offset(p, 1, gid))[long(gid.x) * p.stride[1][0]];
}
// Both lie densely along x: a thread has some neighbours.
template <typename T>
kernel void move_runs(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                      constant IndexParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const uint run = MPSX_VECTOR_BYTES ? lanes<T> : uint(kMoveRun), first = gid.x * run;
  copy_run(out + row_offset(p, 0, gid) + first, in + row_offset(p, 1, gid) + first, min(run, p.size[0] - first));
}
// The output lies densely along x, the input backwards.
template <typename T>
kernel void move_back(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                      constant IndexParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  (out + row_offset(p, 0, gid))[gid.x] = (in + row_offset(p, 1, gid))[-long(gid.x)];
}

// gid = (columns, row, matrix); both tensors are dense. A CPU thread has some neighbouring columns, a GPU's one.
constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : kTriangleTile;
template <typename T>
kernel void triangle(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant TriangleParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong row = (ulong(gid.z) * p.rows + gid.y) * p.columns;
  device const T* from = in + row;
  device T* to = out + row;
  const uint first = gid.x * kTile, last = min(first + kTile, p.columns);
  // The first column right of what tril keeps, or that triu does.
  const long right = long(gid.y) + p.diagonal + (p.upper ? 0 : 1);
  const uint edge = uint(clamp(right, long(first), long(last)));
  const uint kept = p.upper ? edge : first, kept_end = p.upper ? last : edge;
  const uint none = p.upper ? first : edge, none_end = p.upper ? edge : last;
  MPSX_VECTORIZE
  for (uint i = kept; i < kept_end; ++i) to[i] = from[i];
  MPSX_VECTORIZE
  for (uint i = none; i < none_end; ++i) to[i] = T(0);
}

#define MOVE(T, TAG)                           \
  MPSX_KERNEL("gather_" #TAG, gather<T>)       \
  MPSX_KERNEL("move_" #TAG, move<T>)           \
  MPSX_KERNEL("move_runs_" #TAG, move_runs<T>) \
  MPSX_KERNEL("move_back_" #TAG, move_back<T>) \
  MPSX_KERNEL("triangle_" #TAG, triangle<T>)
MOVE(char, i8)
MOVE(short, i16)
MOVE(int, i32)
MOVE(long, i64)
