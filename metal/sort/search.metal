// Where values belong in sorted boundaries: searchsorted and bucketize.
#include "lib/instantiate.h"
#include "sort/params.h"

// One value a thread, in the row of boundaries of its own. The comparison is the other way round for each side, so that
// NaN belongs at the end whichever it is.
template <typename T>
kernel void search(device long* out [[buffer(0)]], device const T* values [[buffer(1)]],
                   device const T* boundaries [[buffer(2)]], device const long* sorter [[buffer(3)]],
                   constant SearchParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong place = ulong(gid.y) * p.values + gid.x, row = ulong(gid.y) * p.row_step;
  const T value = values[place];
  device const T* from = boundaries + row;
  device const long* order = sorter + row;
  // Without branches on what is read, which would be guessed wrong every other time.
  uint low = 0;
  for (uint left = p.size; left > 0;) {
    const uint half_left = left / 2, middle = low + half_left;
    const T boundary = from[p.sorted_by ? ulong(order[middle]) : ulong(middle)];
    const bool beyond = p.right ? boundary > value : boundary >= value;
    low = beyond ? low : middle + 1;
    left = beyond ? half_left : left - half_left - 1;
  }
  out[place] = long(low);
}

#define MPSX_SEARCH(T, TAG, ...) MPSX_KERNEL("search_" #TAG, search<T>)
MPSX_FOR_REAL(MPSX_SEARCH)
