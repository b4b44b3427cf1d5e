// How often each number occurs.
#include "lib/types.h"
#include "index/params.h"

// Numbers are from 0 to p.bins - 1. Sums of integers do not depend on who comes first.
kernel void bincount(device uint* bins [[buffer(0)]], device const long* numbers [[buffer(1)]],
                     constant BincountParams& p [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  const uint begin = tid * p.each, end = min(begin + p.each, p.count);
#if MPSX_VECTOR_BYTES
  device atomic_uint* shared_bins = reinterpret_cast<device atomic_uint*>(bins);
  for (uint i = begin; i < end; ++i) atomic_fetch_add_explicit(shared_bins + numbers[i], 1u, memory_order_relaxed);
#else
  device uint* own = bins + ulong(tid) * p.bins;
  for (uint i = begin; i < end; ++i) own[numbers[i]] += 1;
#endif
}
