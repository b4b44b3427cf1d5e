// Concatenation: the rows of one input put into the output. Bits are moved, named by their size.
#include "lib/compute.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "index/params.h"

// gid = (element of a row in steps of lanes<T>, row).
template <typename T>
kernel void cat_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant CatParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  device const T* from = in + ulong(gid.y) * p.row;
  device T* to = out + long(gid.y) * p.pitch;
  MPSX_EACH_LANE(T, i, gid.x, p.row) to[i] = from[i];
}

// The same where rows are a few elements long: a thread has kTile of them.
constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : kCatTile;
template <typename T>
kernel void cat_columns(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                        constant CatParams& p [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  const uint first = gid * kTile, rows = min(uint(kTile), p.rows - first);
  device const T* from = in + ulong(first) * p.row;
  device T* to = out + long(first) * p.pitch;
  for (uint k = 0; k < p.row; ++k)
    for (uint r = 0; r < rows; ++r) to[r * p.pitch + k] = from[r * p.row + k];
}

#define CAT(T, TAG)                              \
  MPSX_KERNEL("cat_rows_" #TAG, cat_rows<T>)     \
  MPSX_KERNEL("cat_columns_" #TAG, cat_columns<T>)
CAT(char, i8)
CAT(short, i16)
CAT(int, i32)
CAT(long, i64)
