// How a grid maps to elements.
#pragma once

#include "lib/types.h"

// The strided grid: x is the innermost dimension, y the next, z = z1 * size[2] + z0 the two outer ones. The decoding of
// y and z has no loop, so a CPU build hoists it out of its loop over x.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return long(gid.y) * p.stride[operand][1] + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}

// The stride along x: a constant where the kernel is specialised for it (0 or 1), else from the parameters.
enum : int { kAnyStride = -1 };
template <int S, typename Params>
inline long x_stride(constant Params& p, uint operand) {
  return S == kAnyStride ? p.stride[operand][0] : long(S);
}

// A thread of a dense kernel handles lanes<T> neighbours; on a CPU one, and the driver's loop over threads is the loop.
#if MPSX_VECTOR_BYTES
#define MPSX_EACH_LANE(T, i, tid, count) \
  for (uint i = tid * lanes<T>, i##_end = min(i + lanes<T>, count); i < i##_end; ++i)
#else
#define MPSX_EACH_LANE(T, i, tid, count) \
  const uint i = tid;
#endif
