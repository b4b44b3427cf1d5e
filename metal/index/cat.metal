// Concatenation: the rows of one input put into the output. Bits are moved, named by their size.
#include "lib/compute.h"
#include "lib/copy_run.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "index/params.h"

template <typename T>
constexpr constant uint kPiece = MPSX_VECTOR_BYTES ? lanes<T> : uint(kCatPiece);

// gid = (piece of a row, row).
template <typename T>
kernel void cat_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant CatParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kPiece<T>;
  copy_run(out + (long(gid.y) * p.pitch + long(first)), in + (long(gid.y) * p.in_pitch + long(first)),
           min(kPiece<T>, p.row - first));
}

// The same of a few inputs. gid = (piece of a row, row, input).
template <typename T>
kernel void cat_few(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                    device const T* c [[buffer(3)]], device const T* d [[buffer(4)]],
                    constant CatFewParams& p [[buffer(5)]], uint3 gid [[thread_position_in_grid]]) {
  const uint row = p.row[gid.z], first = gid.x * kPiece<T>;
  if (first >= row) return;
  device const T* in = gid.z < 2 ? (gid.z == 0 ? a : b) : (gid.z == 2 ? c : d);
  const long step = p.step[gid.z];
  device const T* from = in + (long(gid.y) * p.in_pitch[gid.z] + long(first) * step);
  device T* to = out + (long(gid.y) * p.pitch + p.offset[gid.z] + long(first));
  const uint n = min(kPiece<T>, row - first);
  if (step == 1) {
    copy_run(to, from, n);
  } else if (step == 0) {
    const T same = *from;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) to[i] = same;
  } else {
    for (uint i = 0; i < n; ++i) to[i] = from[long(i) * step];
  }
}

// The same where rows are a few elements long: a thread has kTile of them.
constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : kCatTile;
template <typename T>
kernel void cat_columns(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                        constant CatParams& p [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  const uint first = gid * kTile, rows = min(uint(kTile), p.rows - first);
  device const T* from = in + long(first) * p.in_pitch;
  device T* to = out + long(first) * p.pitch;
  for (uint k = 0; k < p.row; ++k)
    for (uint r = 0; r < rows; ++r) to[r * p.pitch + k] = from[r * p.in_pitch + k];
}

// Two inputs whose elements take turns, as stack along a last dimension makes them: a thread has kTile pairs.
template <typename T>
kernel void cat_pairs(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                      constant uint& count [[buffer(3)]], uint gid [[thread_position_in_grid]]) {
  const uint first = gid * kTile, n = min(uint(kTile), count - first);
  device const T* from_a = a + first;
  device const T* from_b = b + first;
  device T* to = out + 2 * ulong(first);
  MPSX_VECTORIZE
  for (uint i = 0; i < n; ++i) {
    to[2 * i] = from_a[i];
    to[2 * i + 1] = from_b[i];
  }
}

#define CAT(T, TAG)                                \
  MPSX_KERNEL("cat_rows_" #TAG, cat_rows<T>)       \
  MPSX_KERNEL("cat_few_" #TAG, cat_few<T>)         \
  MPSX_KERNEL("cat_columns_" #TAG, cat_columns<T>) \
  MPSX_KERNEL("cat_pairs_" #TAG, cat_pairs<T>)
CAT(char, i8)
CAT(short, i16)
CAT(int, i32)
CAT(long, i64)
