// Padding with a tensor's own elements, along up to three dimensions. Bits are moved, named by their size.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/pad_params.h"

// Where element o of dimension d of the result comes from.
inline int place_of(int o, uint d, constant PadParams& p) {
  const int last = p.in[d] - 1;
  int i = o - p.before[d];
  if (p.reflects) i = i < 0 ? -i : (i > last ? 2 * last - i : i);
  return clamp(i, 0, last);
}

// gid = (tile of a row, row, the other dimensions).
template <typename T>
kernel void pad(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant PadParams& p [[buffer(2)]],
                uint3 gid [[thread_position_in_grid]]) {
  const uint above = gid.z / uint(p.out[2]), box = above / uint(p.out[3]);
  const int z = place_of(int(gid.z - above * uint(p.out[2])), 2, p), y = place_of(int(gid.y), 1, p);
  const int w = place_of(int(above - box * uint(p.out[3])), 3, p);
  device const T* from = in + (((ulong(box) * p.in[3] + w) * p.in[2] + z) * p.in[1] + y) * ulong(p.in[0]);
  device T* to = out + (ulong(gid.z) * p.out[1] + gid.y) * ulong(p.out[0]);
  const int first = int(gid.x) * kPadTile, end = min(first + kPadTile, p.out[0]), start = first - p.before[0];
  if (start >= 0 && start + kPadTile <= p.in[0] && first + kPadTile <= p.out[0]) {
    MPSX_VECTORIZE
    for (int i = 0; i < kPadTile; ++i) to[first + i] = from[start + i];
  } else {
    MPSX_FEW
    for (int i = first; i < end; ++i) to[i] = from[place_of(i, 0, p)];
  }
}

MPSX_KERNEL("pad_i8", pad<char>)
MPSX_KERNEL("pad_i16", pad<short>)
MPSX_KERNEL("pad_i32", pad<int>)
MPSX_KERNEL("pad_i64", pad<long>)
