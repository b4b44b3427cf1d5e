// Finds runs of equal adjacent elements in three passes: count the runs that start in each chunk, turn the counts into
// start offsets with a prefix sum (nonzero_scan), then write the runs of each chunk.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "index/params.h"

// Returns whether a run of equal elements starts at i. A NaN differs from itself, so each NaN is a separate run.
template <typename T>
inline bool begins(device const T* in, ulong i) {
  return i == 0 || !(in[i] == in[i - 1]);
}

template <typename T>
kernel void unique_count(device long* counts [[buffer(0)]], device const T* in [[buffer(1)]],
                         constant UniqueParams& p [[buffer(2)]], uint chunk [[thread_position_in_grid]]) {
  const ulong begin = ulong(chunk) * p.chunk, end = min(begin + p.chunk, p.count);
  uint found = chunk == 0 ? 1u : 0u;
  device const T* own = in + (begin > 0 ? begin : 1ul);
  const uint n = uint(end - (begin > 0 ? begin : 1ul));
  device const T* before = own - 1;
  MPSX_REDUCE(+ : found)
  for (uint i = 0; i < n; ++i) found += own[i] == before[i] ? 0u : 1u;
  counts[chunk] = long(found);
}

// values[r] is the element of run r. If p.lengths is set, firsts[r] is the index of the run's first element, and the
// entry after the last run is the total number of elements. If p.inverse is set, inverse[order[i]] (inverse[i] if the
// input was not sorted) is the run that contains element i.
template <typename T>
kernel void unique_fill(device T* values [[buffer(0)]], device long* firsts [[buffer(1)]],
                        device long* inverse [[buffer(2)]], device const long* starts [[buffer(3)]],
                        device const T* in [[buffer(4)]], device const long* order [[buffer(5)]],
                        constant UniqueParams& p [[buffer(6)]], uint chunk [[thread_position_in_grid]]) {
  const ulong begin = ulong(chunk) * p.chunk, end = min(begin + p.chunk, p.count);
  long next = starts[chunk];
  for (ulong i = begin; i < end; ++i) {
    if (begins(in, i)) {
      values[next] = in[i];
      if (p.lengths) firsts[next] = long(i);
      ++next;
    }
    if (p.inverse) inverse[p.ordered ? order[i] : long(i)] = next - 1;
  }
  if (p.lengths && end == p.count) firsts[next] = long(p.count);
}

#define UNIQUE(T, TAG, ...)                           \
  MPSX_KERNEL("unique_count_" #TAG, unique_count<T>)  \
  MPSX_KERNEL("unique_fill_" #TAG, unique_fill<T>)
MPSX_FOR_ALL(UNIQUE, )
