// bincount and histc.
#include "index/params.h"
#include "lib/collective.h"
#include "lib/instantiate.h"

inline void count_one(threadgroup atomic_uint* bin) { atomic_fetch_add_explicit(bin, 1u, memory_order_relaxed); }

// Counts how many of the elements [begin, end) are in each bin. `bin_of.at(i)` returns `bin_count` or more for an
// element in no bin. If all bins fit in threadgroup memory, counts there first and then adds the totals to `bins`
// atomically.
template <typename BinOf>
inline void count_bins(device atomic_uint* bins, uint bin_count, uint begin, uint end, BinOf bin_of,
                       threadgroup atomic_uint* local_bins, GroupThread g) {
  const bool fits = bin_count <= kGroupBins;
  for (uint b = g.index; fits && b < bin_count; b += g.count)
    atomic_store_explicit(local_bins + b, 0u, memory_order_relaxed);
  tg_barrier();
  for (uint i = begin + g.index; i < end; i += g.count) {
    const ulong bin = bin_of.at(i);
    if (bin >= bin_count) continue;
    if (fits)
      count_one(local_bins + bin);
    else
      atomic_fetch_add_explicit(bins + bin, 1u, memory_order_relaxed);
  }
  tg_barrier();
  for (uint b = g.index; fits && b < bin_count; b += g.count) {
    const uint n = atomic_load_explicit(local_bins + b, memory_order_relaxed);
    if (n > 0) atomic_fetch_add_explicit(bins + b, n, memory_order_relaxed);
  }
}

struct BincountBin {
  device const long* numbers;
  ulong at(uint i) const { return ulong(numbers[i]); }
};
kernel void bincount(device atomic_uint* bins [[buffer(0)]], device const long* numbers [[buffer(1)]],
                     constant HistogramParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup atomic_uint local_bins[kGroupBins];
  const uint begin = g.group.x * kHistogramChunk;
  count_bins(bins, p.bins, begin, begin + min(uint(kHistogramChunk), p.count - begin), BincountBin{numbers}, local_bins,
             g);
}

// Divides [low, high] into equal bins. NaN and values outside the range are in no bin.
template <typename T>
struct HistcBin {
  device const T* in;
  float low, high;
  uint parts;
  ulong at(uint i) const {
    const float x = float(in[i]);
    if (!(x >= low && x <= high)) return UINT_MAX;
    return min(uint((x - low) * float(parts) / (high - low)), parts - 1);
  }
};
template <typename T>
kernel void histc(device atomic_uint* bins [[buffer(0)]], device const T* in [[buffer(1)]],
                  constant HistogramParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup atomic_uint local_bins[kGroupBins];
  const uint begin = g.group.x * kHistogramChunk;
  const HistcBin<T> part = {in, p.low, p.high, p.bins};
  count_bins(bins, p.bins, begin, begin + min(uint(kHistogramChunk), p.count - begin), part, local_bins, g);
}
#define HISTC(T, TAG, ...) MPSX_KERNEL("histc_" #TAG, histc<T>)
MPSX_FOR_FLOAT(HISTC, )
