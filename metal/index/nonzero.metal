// nonzero in three passes: count the nonzero elements of each chunk, turn the counts into start offsets with a prefix
// sum, then write the indices of each chunk.
#include "index/params.h"
#include "lib/collective.h"
#include "lib/instantiate.h"

template <typename T>
kernel void nonzero_count(device long* counts [[buffer(0)]], device const T* in [[buffer(1)]],
                          constant NonzeroParams& p [[buffer(2)]], uint chunk [[thread_position_in_grid]]) {
  const ulong begin = ulong(chunk) * p.chunk;
  const uint n = uint(min(ulong(p.chunk), p.count - begin));
  device const T* own = in + begin;
  uint found = 0;
  MPSX_REDUCE(+ : found)
  for (uint i = 0; i < n; ++i) found += uint(own[i] != T(0));
  counts[chunk] = long(found);
}

// Computes the exclusive prefix sum of the counts in one threadgroup. Stores the total in counts[chunks].
kernel void nonzero_scan(device long* counts [[buffer(0)]], constant uint& chunks [[buffer(1)]],
                         MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint scratch[kScratch];
  long before = 0;
  for (uint first = 0; first < chunks; first += g.count) {
    const uint i = first + g.index;
    // The count of a chunk and the sum of a threadgroup's counts both fit in 32 bits.
    const uint own = i < chunks ? uint(counts[i]) : 0u;
    uint all;
    const uint sum = tg_prefix_sum(own, all, scratch, g);
    if (i < chunks) counts[i] = before + long(sum);
    before += long(all);
  }
  if (g.index == 0) counts[chunks] = before;
}

// Stores in out[d][k] the coordinate of the k-th nonzero element in dimension d.
template <typename T>
kernel void nonzero_fill(device long* out [[buffer(0)]], device const long* starts [[buffer(1)]],
                         device const T* in [[buffer(2)]], constant NonzeroParams& p [[buffer(3)]],
                         uint chunk [[thread_position_in_grid]]) {
  const ulong begin = ulong(chunk) * p.chunk, end = min(begin + p.chunk, p.count);
  device long* to = out + starts[chunk];
  if (p.dims == 1) {
    for (ulong i = begin; i < end; ++i) {
      if (in[i] != T(0)) *to++ = long(i);
    }
    return;
  }
  for (ulong i = begin; i < end; ++i) {
    if (in[i] == T(0)) continue;
    ulong rest = i;
    for (uint d = p.dims; d-- > 0;) {
      const ulong next = rest / p.size[d];
      to[ulong(d) * p.total] = long(rest - next * p.size[d]);
      rest = next;
    }
    ++to;
  }
}

#define NONZERO(T, TAG, ...)                              \
  MPSX_KERNEL("nonzero_count_" #TAG, nonzero_count<T>)    \
  MPSX_KERNEL("nonzero_fill_" #TAG, nonzero_fill<T>)
MPSX_FOR_ALL(NONZERO, )
