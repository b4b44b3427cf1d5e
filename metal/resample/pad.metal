// Padding with a tensor's own elements, along up to three dimensions: each element is one of the input. Bits are moved,
// named by their size.
#include "lib/copy_run.h"
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

// The same of number x of a row, where an element is several numbers.
inline int edge_of(int x, constant PadParams& p) {
  const int o = x / p.inner;
  return place_of(o, p.before[0], p.in[0], p.reflects) * p.inner + (x - o * p.inner);
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
  const int before = p.before[0], in_last = p.in[0] - 1, far = 2 * in_last + before;
  for (int y = row; y < end_row; ++y) {
    device const T* from = plane + ulong(place_of(y, p.before[1], p.in[1], p.reflects)) * p.in[0] * p.inner;
    device T* to = out + (ulong(gid.z) * p.out[1] + y) * ulong(width);
    copy_run(to + begin, from + (begin - shift), uint(end - begin));
    if (p.inner > 1) {
      MPSX_FEW
      for (int x = first; x < begin; ++x) to[x] = from[edge_of(x, p)];
      MPSX_FEW
      for (int x = end; x < last; ++x) to[x] = from[edge_of(x, p)];
    } else if (p.reflects) {
      MPSX_FEW
      for (int x = first; x < begin; ++x) to[x] = from[before - x];
      MPSX_FEW
      for (int x = end; x < last; ++x) to[x] = from[far - x];
    } else {
      MPSX_FEW
      for (int x = first; x < begin; ++x) to[x] = from[0];
      MPSX_FEW
      for (int x = end; x < last; ++x) to[x] = from[in_last];
    }
  }
}

MPSX_KERNEL("pad_i8", pad<char>)
MPSX_KERNEL("pad_i16", pad<short>)
MPSX_KERNEL("pad_i32", pad<int>)
MPSX_KERNEL("pad_i64", pad<long>)
