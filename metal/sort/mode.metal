// mode: the most frequent value of a row (the smallest one if several are equally frequent) and the index of its last
// occurrence. NaN does not equal any value. If no value repeats and the unsorted row starts with NaN, the result is
// NaN. This matches the CPU, which sorts as if NaN equaled every value.
#include "lib/collective.h"
#include "lib/instantiate.h"

// Returns the index of the first element that equals element `n` of a sorted row.
template <typename T>
inline uint begin_of_run(device const T* x, uint n) {
  const T value = x[n];
  if (value != value) return n;
  uint low = 0, high = n;
  while (low < high) {
    const uint middle = low + (high - low) / 2;
    if (x[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Each threadgroup processes one row, which is sorted. `order` holds the original indices of the elements.
template <typename T>
kernel void mode(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                 device const T* sorted [[buffer(2)]], device const long* order [[buffer(3)]],
                 constant uint& size [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Indexed<long> scratch[kScratch];
  device const T* x = sorted + ulong(g.group.x) * size;
  const uint each = (size + g.count - 1) / g.count;
  const uint first = min(g.index * each, size), end = min(first + each, size);
  Indexed<long> best = {-1, 0};
  uint begin = first < end ? begin_of_run(x, first) : 0;
  for (uint i = first; i < end; ++i) {
    if (i > first && x[i] != x[i - 1]) begin = i;
    const bool leads = x[i] != x[i] && order[ulong(g.group.x) * size + i] == 0;
    const long rank = 2 * long(i - begin) + long(leads);
    if (rank > best.key) best = {rank, long(i)};
  }
  best = tg_argmax(best, scratch, g);
  if (g.index != 0) return;
  values[g.group.x] = x[best.index];
  indices[g.group.x] = order[ulong(g.group.x) * size + ulong(best.index)];
}

#define MODE(T, TAG, ...) MPSX_KERNEL("mode_" #TAG, mode<T>)
MPSX_FOR_ALL(MODE, )
