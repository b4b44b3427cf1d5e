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

#define CAT(T, TAG) MPSX_KERNEL("cat_rows_" #TAG, cat_rows<T>)
CAT(char, i8)
CAT(short, i16)
CAT(int, i32)
CAT(long, i64)
