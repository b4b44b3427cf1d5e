// How often each number occurs, and how many numbers lie in each of equal parts of a range.
#include "lib/instantiate.h"
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
#if !MPSX_VECTOR_BYTES
// By one thread, as the result is wanted.
kernel void bincount_alone(device long* bins [[buffer(0)]], device const long* numbers [[buffer(1)]],
                           constant BincountParams& p [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  for (uint i = tid * p.each, end = i + p.count; i < end; ++i) bins[numbers[i]] += 1;
}
#endif

// Parts of [p.low, p.high]; what lies outside (and NaN) counts nowhere.
template <typename T>
kernel void histc(device uint* bins [[buffer(0)]], device const T* in [[buffer(1)]],
                  constant HistcParams& p [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  const uint begin = tid * p.each, end = min(begin + p.each, p.count);
  const float span = p.high - p.low, parts = float(p.bins);
#if MPSX_VECTOR_BYTES
  device atomic_uint* own = reinterpret_cast<device atomic_uint*>(bins);
#else
  device uint* own = bins + ulong(tid) * p.bins;
#endif
  for (uint i = begin; i < end; ++i) {
    const float x = float(in[i]);
    if (!(x >= p.low && x <= p.high)) continue;
    const uint place = min(uint((x - p.low) * parts / span), p.bins - 1);
#if MPSX_VECTOR_BYTES
    atomic_fetch_add_explicit(own + place, 1u, memory_order_relaxed);
#else
    own[place] += 1;
#endif
  }
}
#define HISTC(T, TAG, ...) MPSX_KERNEL("histc_" #TAG, histc<T>)
MPSX_FOR_FLOAT(HISTC, )
