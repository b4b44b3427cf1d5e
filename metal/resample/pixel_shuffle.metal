// pixel_shuffle and pixel_unshuffle of contiguous tensors. Bits are moved, named by their size.
#include "lib/types.h"
#include "lib/instantiate.h"
#include "resample/pixel_shuffle_params.h"

// Row gid.y of a large plane gid.z, from or to as many rows of small planes as the factor says. A CPU's thread has the
// row, a GPU's one element.
template <typename T, bool BACK>
kernel void pixel_shuffle(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                          constant PixelShuffleParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const uint r = p.factor, y = gid.y / r, width = p.width;
  const ulong plane = ulong(p.height) * width;  // from one small row to the next
  const ulong small = (ulong(gid.z) * r + (gid.y - y * r)) * r * plane + ulong(y) * width;
  const ulong large = (ulong(gid.z) * p.height * r + gid.y) * width * r;
  device T* to = out + (BACK ? small : large);
  device const T* from = in + (BACK ? large : small);
#if MPSX_VECTOR_BYTES
  const uint x = gid.x / r, j = gid.x - x * r;
  if (BACK) to[j * plane + x] = from[gid.x];
  else to[gid.x] = from[j * plane + x];
#else
  if (r == 2) {
    if (BACK) {
      MPSX_VECTORIZE
      for (uint x = 0; x < width; ++x) {
        to[x] = from[2 * x];
        to[plane + x] = from[2 * x + 1];
      }
    } else {
      MPSX_VECTORIZE
      for (uint x = 0; x < width; ++x) {
        to[2 * x] = from[x];
        to[2 * x + 1] = from[plane + x];
      }
    }
    return;
  }
  for (uint j = 0; j < r; ++j) {
    if (BACK) {
      for (uint x = 0; x < width; ++x) to[j * plane + x] = from[x * r + j];
    } else {
      for (uint x = 0; x < width; ++x) to[x * r + j] = from[j * plane + x];
    }
  }
#endif
}

#define SHUFFLE(T, TAG)                                                 \
  MPSX_KERNEL("pixel_shuffle_" #TAG, pixel_shuffle<T, false>)          \
  MPSX_KERNEL("pixel_unshuffle_" #TAG, pixel_shuffle<T, true>)
SHUFFLE(char, i8)
SHUFFLE(short, i16)
SHUFFLE(int, i32)
SHUFFLE(long, i64)
