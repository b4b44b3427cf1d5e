// Padding with a tensor's own elements, along up to three dimensions: each element is one of the input. Bits are moved,
// named by their size.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/pad_params.h"

// A CPU thread has some neighbouring rows, each as far as kPadRun; a GPU's has one element.
constexpr constant int kRows = MPSX_VECTOR_BYTES ? 1 : kPadRows;
constexpr constant int kRun = MPSX_VECTOR_BYTES ? 1 : kPadRun;

// The place in the input of place o of the result.
inline int place_of(int o, int before, int in, uint reflects) {
  int i = o - before;
  if (reflects) i = i < 0 ? -i : (i >= in ? 2 * (in - 1) - i : i);
  return clamp(i, 0, in - 1);
}

// gid = (elements of a row, rows of a plane, planes). Dimensions innermost first; an element is p.inner numbers.
template <typename T>
kernel void pad(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant PadParams& p [[buffer(2)]],
                uint3 gid [[thread_position_in_grid]]) {
  const int width = p.out[0] * p.inner, first = int(gid.x) * kRun, last = min(first + kRun, width);
  const int row = int(gid.y) * kRows, end_row = min(row + kRows, p.out[1]);
  const uint box = gid.z / uint(p.out[2]);
  const int depth = place_of(int(gid.z - box * uint(p.out[2])), p.before[2], p.in[2], p.reflects);
  device const T* plane = in + (ulong(box) * p.in[2] + depth) * ulong(p.in[1]) * p.in[0] * p.inner;
  // Between these a row is that of the input.
  const int shift = p.before[0] * p.inner;
  const int begin = clamp(shift, first, last), end = clamp(shift + p.in[0] * p.inner, begin, last);
  for (int y = row; y < end_row; ++y) {
    device const T* from = plane + ulong(place_of(y, p.before[1], p.in[1], p.reflects)) * p.in[0] * p.inner;
    device T* to = out + (ulong(gid.z) * p.out[1] + y) * ulong(width);
    for (int x = first; x < begin; ++x) {
      const int o = p.inner == 1 ? x : x / p.inner;
      to[x] = from[place_of(o, p.before[0], p.in[0], p.reflects) * p.inner + (x - o * p.inner)];
    }
    MPSX_VECTORIZE
    for (int x = begin; x < end; ++x) to[x] = from[x - shift];
    for (int x = end; x < last; ++x) {
      const int o = p.inner == 1 ? x : x / p.inner;
      to[x] = from[place_of(o, p.before[0], p.in[0], p.reflects) * p.inner + (x - o * p.inner)];
    }
  }
}

MPSX_KERNEL("pad_i8", pad<char>)
MPSX_KERNEL("pad_i16", pad<short>)
MPSX_KERNEL("pad_i32", pad<int>)
MPSX_KERNEL("pad_i64", pad<long>)
