// Reflection and replication padding along up to three dimensions. These kernels copy raw bits, so they are named by
// element size.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/pad_params.h"

// Returns the index of the input element that output element o copies, along a dimension with `before` elements of
// padding in front of `size` input elements.
inline int source_index(int o, int before, int size, bool reflects) {
  const int last = size - 1;
  int i = o - before;
  if (reflects) i = i < 0 ? -i : (i > last ? 2 * last - i : i);
  return clamp(i, 0, last);
}
inline int source_index(int o, uint d, constant PadParams& p) {
  return source_index(o, p.before[d], p.in[d], p.reflects != 0);
}

// gid = (tile of a row, row, outer dimensions).
template <typename T>
kernel void pad(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant PadParams& p [[buffer(2)]],
                uint3 gid [[thread_position_in_grid]]) {
  ulong plane = gid.z;
  if (p.volumes) {
    const uint above = gid.z / uint(p.out[2]), box = above / uint(p.out[3]);
    const int z = source_index(int(gid.z - above * uint(p.out[2])), 2, p);
    const int w = source_index(int(above - box * uint(p.out[3])), 3, p);
    plane = (ulong(box) * p.in[3] + w) * p.in[2] + z;
  }
  device const T* from = in + (plane * p.in[1] + source_index(int(gid.y), 1, p)) * ulong(p.in[0]);
  device T* to = out + (ulong(gid.z) * p.out[1] + gid.y) * ulong(p.out[0]);
  // Read the parameters only once, because the compiler must assume that writes to `out` may change them.
  const int before = p.before[0], size = p.in[0];
  const bool reflects = p.reflects != 0;
  const int first = int(gid.x) * kPadTile, end = min(first + kPadTile, p.out[0]);
  const int left = clamp(before, first, end), right = min(before + size, end);
  int i = first;
  MPSX_FEW
  for (; i < left; ++i) to[i] = from[source_index(i, before, size, reflects)];
  for (; i + kPadRun <= right; i += kPadRun) {
    MPSX_VECTORIZE
    for (int j = 0; j < kPadRun; ++j) to[i + j] = from[i + j - before];
  }
  MPSX_FEW
  for (; i < end; ++i) to[i] = from[source_index(i, before, size, reflects)];
}

MPSX_KERNEL("pad_i8", pad<char>)
MPSX_KERNEL("pad_i16", pad<short>)
MPSX_KERNEL("pad_i32", pad<int>)
MPSX_KERNEL("pad_i64", pad<long>)
