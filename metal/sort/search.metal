// Where values belong in sorted boundaries: searchsorted and bucketize.
#include "lib/instantiate.h"
#include "sort/params.h"

// Neighbouring values that a CPU's thread looks for side by side, a GPU's has one: each in the row of boundaries of its own.
// The comparison is the other way round for each side, so that NaN belongs at the end whichever it is.
constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : kSearchTile, kLanes = 16;

// The halves of [low, high) that the values belong in; nothing where that is empty.
template <bool RIGHT, typename T>
inline void halve(thread uint* low, thread uint* high, device const T* from, thread const T* value, uint last, uint n) {
  MPSX_VECTORIZE
  for (uint j = 0; j < n; ++j) {
    const uint begin = low[j], end = high[j], middle = begin + (end - begin) / 2;
    const T boundary = from[min(middle, last)];
    const bool beyond = RIGHT ? boundary > value[j] : boundary >= value[j], open = begin < end;
    high[j] = beyond ? middle : end;  // where nothing is left it is the middle
    low[j] = open & !beyond ? middle + 1 : begin;
  }
}

template <typename T>
kernel void search(device long* out [[buffer(0)]], device const T* values [[buffer(1)]],
                   device const T* boundaries [[buffer(2)]], device const long* sorter [[buffer(3)]],
                   constant SearchParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kTile, n = min(kTile, p.values - first), size = p.size, last = size - 1;
  const ulong place = ulong(gid.y) * p.values + first, row = ulong(gid.y) * p.row_step;
  device const T* value = values + place;
  device const T* from = boundaries + row;
  device const long* order = sorter + row;
  const bool right = p.right != 0, sorted_by = p.sorted_by != 0;
  uint low[kTile], high[kTile];
  T sought[kTile];  // whole vectors, the first value again where there is none
  const uint wide = min(kTile, (n + kLanes - 1) / kLanes * kLanes);
  for (uint j = 0; j < wide; ++j) {
    low[j] = 0;
    high[j] = size;
    sought[j] = value[j < n ? j : 0];
  }
  // As many steps for every value, and without branches on what is read, which would be guessed wrong every other time.
  for (uint left = size; left > 0; left /= 2) {
    if (sorted_by) {
      for (uint j = 0; j < n; ++j) {
        const uint middle = low[j] + (high[j] - low[j]) / 2;
        if (low[j] == high[j]) continue;
        const T boundary = from[order[middle]];
        const bool beyond = right ? boundary > value[j] : boundary >= value[j];
        high[j] = beyond ? middle : high[j];
        low[j] = beyond ? low[j] : middle + 1;
      }
    } else if (right) {
      halve<true>(low, high, from, sought, last, wide);
    } else {
      halve<false>(low, high, from, sought, last, wide);
    }
  }
  for (uint j = 0; j < n; ++j) out[place + j] = long(low[j]);
}

#define MPSX_SEARCH(T, TAG, ...) MPSX_KERNEL("search_" #TAG, search<T>)
MPSX_FOR_REAL(MPSX_SEARCH)
