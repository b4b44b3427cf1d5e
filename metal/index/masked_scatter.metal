// masked_scatter of few elements, by one thread: where the mask says so comes the next element of the source.
#include "lib/instantiate.h"
#include "lib/types.h"

// Nothing is written where the mask takes more than the source has.
template <typename T>
kernel void masked_scatter(device T* self [[buffer(0)]], device long* taken [[buffer(1)]],
                           device const uchar* mask [[buffer(2)]], device const T* source [[buffer(3)]],
                           constant uint& size [[buffer(4)]], constant ulong& most [[buffer(5)]],
                           uint tid [[thread_position_in_grid]]) {
  uint count = 0;
  MPSX_REDUCE(+ : count)
  for (uint i = tid; i < size; ++i) count += uint(mask[i] != 0);
  *taken = long(count);
  if (count > most) return;
  ulong next = 0;
  for (uint i = tid; i < size; ++i)
    if (mask[i] != 0) self[i] = source[next++];
}

#define MASKED(T, TAG) MPSX_KERNEL("masked_scatter_" #TAG, masked_scatter<T>)
MASKED(char, i8)
MASKED(short, i16)
MASKED(int, i32)
MASKED(long, i64)
