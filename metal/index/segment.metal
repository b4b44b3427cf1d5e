// Rows added up by key, in order: a stable radix sort orders the rows by key, then each key's first row owns the sum.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "index/params.h"
#include "lib/arithmetic.h"

constexpr constant uint kDigits = 256;

kernel void order_start(device uint* keys [[buffer(0)]], device uint* rows [[buffer(1)]],
                        device const long* index [[buffer(2)]], constant long& size [[buffer(3)]],
                        uint i [[thread_position_in_grid]]) {
  const long k = index[i];
  keys[i] = uint(k < 0 ? k + size : k);
  rows[i] = i;
}

// Counts the digits of a chunk. A thread owns a chunk and its line of the histogram.
kernel void order_count(device uint* histogram [[buffer(0)]], device const uint* keys [[buffer(1)]],
                        constant OrderParams& p [[buffer(2)]], uint chunk [[thread_position_in_grid]]) {
  device uint* own = histogram + ulong(chunk) * kDigits;
  for (uint d = 0; d < kDigits; ++d) own[d] = 0;
  for (uint i = chunk * p.chunk, end = min(i + p.chunk, p.count); i < end; ++i) own[(keys[i] >> p.shift) & 255u] += 1;
}

// Per digit: the counts of earlier chunks; the total goes behind the last chunk's line.
kernel void order_scan(device uint* histogram [[buffer(0)]], constant OrderParams& p [[buffer(1)]],
                       uint digit [[thread_position_in_grid]]) {
  uint sum = 0;
  for (uint chunk = 0; chunk < p.chunks; ++chunk) {
    const uint n = histogram[ulong(chunk) * kDigits + digit];
    histogram[ulong(chunk) * kDigits + digit] = sum;
    sum += n;
  }
  histogram[ulong(p.chunks) * kDigits + digit] = sum;
}

kernel void order_place(device uint* keys_out [[buffer(0)]], device uint* rows_out [[buffer(1)]],
                        device const uint* keys [[buffer(2)]], device const uint* rows [[buffer(3)]],
                        device uint* histogram [[buffer(4)]], constant OrderParams& p [[buffer(5)]],
                        uint chunk [[thread_position_in_grid]]) {
  device uint* next = histogram + ulong(chunk) * kDigits;
  device const uint* totals = histogram + ulong(p.chunks) * kDigits;
  uint before = 0;
  for (uint d = 0; d < kDigits; ++d) {
    next[d] += before;
    before += totals[d];
  }
  for (uint i = chunk * p.chunk, end = min(i + p.chunk, p.count); i < end; ++i) {
    const uint key = keys[i], digit = (key >> p.shift) & 255u, place = next[digit];
    next[digit] = place + 1;
    keys_out[place] = key;
    rows_out[place] = rows[i];
  }
}

template <typename C> inline C sum_of(C a, C b) { return add_scaled(a, b, C(1)); }
template <typename C> inline C share(C sum, uint) { return sum; }
inline float share(float sum, uint count) { return sum / float(count); }

constexpr constant uint kColumns = 8;  // neighbours that a thread adds up

// N neighbouring columns of the rows at [first, end) of the order.
template <uint N, typename T>
inline void sum_columns(device T* to, device const T* block, device const uint* rows, uint first, uint end,
                        constant SegmentParams& p) {
  typedef compute_t<T> C;
  C sum[N];
  for (uint j = 0; j < N; ++j) sum[j] = p.add ? C(to[j]) : C(0);
  for (uint i = first; i < end; ++i) {
    device const T* from = block + ulong(rows[i]) * p.row;
    for (uint j = 0; j < N; ++j) sum[j] = sum_of(sum[j], C(from[j]));
  }
  if (p.by_frequency)
    for (uint j = 0; j < N; ++j) sum[j] = share(sum[j], end - first);
  MPSX_VECTORIZE
  for (uint j = 0; j < N; ++j) to[j] = T(sum[j]);
}

// group = (place in the order, outer block). The first place of a key adds up the key's rows.
template <typename T>
kernel void segment_sum(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                        device const uint* keys [[buffer(2)]], device const uint* rows [[buffer(3)]],
                        constant SegmentParams& p [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const uint first = group.x, key = keys[first];
  if ((first > 0 && keys[first - 1] == key) || long(key) == p.padding) return;
  uint end = first + 1;
  while (end < p.count && keys[end] == key) ++end;
  device T* to = out + (long(group.y) * p.outer + long(key) * p.pitch);
  device const T* block = in + ulong(group.y) * p.count * p.row;
  for (uint c = tid * kColumns; c < p.row; c += threads.x * kColumns) {
    if (c + kColumns <= p.row)
      sum_columns<kColumns>(to + c, block + c, rows, first, end, p);
    else
      for (uint i = c; i < p.row; ++i) sum_columns<1>(to + i, block + i, rows, first, end, p);
  }
}

#define SEGMENT(T, TAG, ...) MPSX_KERNEL("segment_sum_" #TAG, segment_sum<T>)
MPSX_FOR_ALL(SEGMENT, )
