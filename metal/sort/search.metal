// searchsorted and bucketize: where to insert each value among sorted boundaries.
#include "lib/instantiate.h"
#include "sort/params.h"

// Every search takes the same number of steps, which avoids data-dependent branches. Searches from the left and from
// the right use different comparisons, but both insert NaN at the end. gid = (value, row).
template <typename T>
kernel void search(device long* out [[buffer(0)]], device const T* values [[buffer(1)]],
                   device const T* boundaries [[buffer(2)]], device const long* sorter [[buffer(3)]],
                   constant SearchParams& p [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  const ulong position = ulong(gid.y) * p.values + gid.x, row = ulong(gid.y) * p.row_step;
  device const T* from = boundaries + row;
  device const long* order = sorter + row;
  const T value = values[position];
  const uint last = p.size - 1;
  uint low = 0, high = p.size;
  for (uint left = p.size; left > 0; left /= 2) {
    const uint middle = low + (high - low) / 2, at = min(middle, last);
    const T boundary = from[p.sorted_by ? uint(order[at]) : at];
    const bool beyond = p.right ? boundary > value : boundary >= value, open = low < high;
    high = beyond ? middle : high;  // has no effect once low has reached high
    low = open & !beyond ? middle + 1 : low;
  }
  out[position] = long(low);
}

#define MPSX_SEARCH(T, TAG, ...) MPSX_KERNEL("search_" #TAG, search<T>)
MPSX_FOR_REAL(MPSX_SEARCH)
