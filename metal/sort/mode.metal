// mode: the value that is there most often in a row, the least of several, and where its last one is. A NaN equals nothing,
// and comes before all that are there as often.
#include "lib/instantiate.h"
#include "lib/types.h"

// Of rows that are sorted, `order` being where their elements were.
template <typename T>
kernel void mode(device T* values [[buffer(0)]], device long* indices [[buffer(1)]], device const T* sorted [[buffer(2)]],
                 device const long* order [[buffer(3)]], constant uint& size [[buffer(4)]],
                 uint row [[thread_position_in_grid]]) {
  device const T* x = sorted + ulong(row) * size;
  uint begin = 0, last = 0;
  long most = -1;
  for (uint i = 0; i < size; ++i) {
    if (i > 0 && x[i] != x[i - 1]) begin = i;
    const long rank = 2 * long(i - begin) + (x[i] != x[i] ? 1 : 0);
    if (rank > most) most = rank, last = i;
  }
  values[row] = x[last];
  indices[row] = order[ulong(row) * size + last];
}

// Of rows so short that each element may be compared with all others.
template <typename T>
kernel void mode_short(device T* values [[buffer(0)]], device long* indices [[buffer(1)]], device const T* in [[buffer(2)]],
                       constant uint& size [[buffer(3)]], uint row [[thread_position_in_grid]]) {
  device const T* x = in + ulong(row) * size;
  uint first = 0;
  int most = -1;
  // The first of equal ones is followed by all others; near the end nothing is there as often any more.
  for (uint i = 0; i < size && 2 * int(size - i - 1) >= most; ++i) {
    const T own = x[i];
    int equal = 0;
    MPSX_REDUCE_BY(8, 2, + : equal)
    for (uint j = i; j < size; ++j) equal += x[j] == own ? 1 : 0;
    const int rank = own != own ? 1 : 2 * (equal - 1);
    if (rank > most || (rank == most && own < x[first])) most = rank, first = i;
  }
  uint place = size - 1;
  while (place > first && x[place] != x[first]) --place;
  values[row] = x[place];
  indices[row] = long(place);
}

#define MODE(T, TAG, ...)                    \
  MPSX_KERNEL("mode_" #TAG, mode<T>)         \
  MPSX_KERNEL("mode_short_" #TAG, mode_short<T>)
MPSX_FOR_ALL(MODE, )
