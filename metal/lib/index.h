// Maps grid positions to elements.
#pragma once

#include "lib/types.h"

// Returns the offset of a row in a strided grid. y is the index in the second dimension, and z = z1 * size[2] + z0
// combines the outer two dimensions.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const long y = long(gid.y) * p.stride[operand][1];
  if (gid.z == 0) return y;  // most grids have at most two dimensions; skip the division
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return y + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}

// Indicates that the kernel reads the stride along x from its parameters. All other values are compile-time strides.
enum : int { kAnyStride = -1 };
