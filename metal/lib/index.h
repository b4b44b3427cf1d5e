// Maps grid positions to elements.
#pragma once

#include "lib/types.h"

// Returns a row's offset in a strided grid, where y is the second dimension and z = z1 * size[2] + z0 combines the
// outer two.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const long y = long(gid.y) * p.stride[operand][1];
  if (gid.z == 0) return y;  // most grids have at most two dimensions, so skip the expensive division
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return y + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}

// Marks a stride along x that the kernel reads from its parameters. Any other value is a compile-time stride.
enum : int { kAnyStride = -1 };
