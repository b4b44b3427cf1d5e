// mode: of rows that are sorted, the value that is there most often, the first of several, and where its last one was.
#include "lib/instantiate.h"
#include "lib/types.h"

// A NaN equals nothing, and comes before all that are there as often.
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

#define MODE(T, TAG, ...) MPSX_KERNEL("mode_" #TAG, mode<T>)
MPSX_FOR_ALL(MODE, )
