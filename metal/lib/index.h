// How a grid maps to elements.
#pragma once

#include "lib/types.h"

// The strided grid: x is the innermost dimension, y the next, z = z1 * size[2] + z0 the two outer ones.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const long y = long(gid.y) * p.stride[operand][1];
  if (gid.z == 0) return y;  // most grids have no more than a plane, and a division costs more than the rest
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return y + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}

// The element of a thread that takes one.
template <typename Params>
inline long grid_offset(constant Params& p, uint operand, uint3 gid) {
  return row_offset(p, operand, gid) + long(gid.x) * p.stride[operand][0];
}

// The stride along x: a constant where the kernel is specialised for it (0 or 1), else from the parameters.
enum : int { kAnyStride = -1 };
template <int S, typename Params>
inline long x_stride(constant Params& p, uint operand) {
  return S == kAnyStride ? p.stride[operand][0] : long(S);
}
