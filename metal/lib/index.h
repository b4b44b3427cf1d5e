// How a grid maps to elements.
#pragma once

#include "lib/types.h"

// The strided grid: x is the innermost dimension, y the next, z = z1 * size[2] + z0 the two outer ones.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const long y = long(gid.y) * p.stride[operand][1];
  if (gid.z == 0) return y;  // most grids are at most planes, and a division costs more than the rest
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return y + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}

// A kernel's stride along x: some kernels are specialized for constant strides, and this one reads it from the
// parameters.
enum : int { kAnyStride = -1 };
