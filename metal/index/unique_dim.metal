// Sorts rows lexicographically by merging sorted runs until a single run remains. Used by unique along a dimension.
#include "lib/instantiate.h"
#include "index/rows_params.h"

// Returns whether row a sorts before row b.
template <typename T>
inline bool row_before(device const T* a, device const T* b, uint width) {
  for (uint i = 0; i < width; ++i) {
    if (a[i] < b[i]) return true;
    if (b[i] < a[i]) return false;
  }
  return false;
}

// Merges pairs of runs, with one thread per row. A binary search in the paired run yields the row's position.
template <typename T>
kernel void merge_rows(device long* out [[buffer(0)]], device const long* order [[buffer(1)]],
                       device const T* rows [[buffer(2)]], constant RowOrderParams& p [[buffer(3)]],
                       uint3 gid [[thread_position_in_grid]]) {
  const uint position = gid.x, own = position / p.run, pair = own / 2 * 2 * p.run;
  const bool second = own % 2 == 1;
  device const T* row = rows + ulong(order[position]) * p.width;
  const uint begin = min(second ? pair : pair + p.run, p.count), end = min(begin + p.run, p.count);
  uint low = begin, high = end;
  while (low < high) {
    const uint middle = low + (high - low) / 2;
    device const T* other = rows + ulong(order[middle]) * p.width;
    // The merge must be stable: among equal rows, the rows of the first run come first.
    const bool before = second ? !row_before(row, other, p.width) : row_before(other, row, p.width);
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  out[pair + (position - own * p.run) + (low - begin)] = order[position];
}

#define MERGE_ROWS(T, TAG, ...) MPSX_KERNEL("merge_rows_" #TAG, merge_rows<T>)
MPSX_FOR_REAL(MERGE_ROWS, )
