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
  uint low = 0, high = p.size;
  while (low < high) {
    const uint middle = low + (high - low) / 2;
    const T boundary = boundaries[row + (p.sorted_by ? ulong(sorter[row + middle]) : ulong(middle))];
    const bool beyond = p.right ? boundary > value : boundary >= value;
    if (beyond)
      high = middle;
    else
      low = middle + 1;
  }
  out[place] = long(low);
}

#define MPSX_SEARCH(T, TAG, ...) MPSX_KERNEL("search_" #TAG, search<T>)
MPSX_FOR_REAL(MPSX_SEARCH)
