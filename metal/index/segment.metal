// Sums rows with equal keys in a fixed order. The rows are sorted by key. The threads assigned to the first row with a
// key compute the sum for that key.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/vec_loop.h"
#include "index/params.h"
#include "lib/arithmetic.h"

template <typename C> inline C sum_of(C a, C b) { return add_scaled(a, b, C(1)); }
template <typename C> inline C share(C sum, uint) { return sum; }
inline float share(float sum, uint count) { return sum / float(count); }

// Number of consecutive columns that a thread sums at a time.
template <typename T>
constexpr constant uint sum_vec_size = 16 / sizeof(T);

// Sums N consecutive columns over rows [first, end) in sorted order.
template <uint N, typename T>
inline void sum_columns(device T* to, device const T* block, device const long* rows, uint first, uint end,
                        constant SegmentParams& p) {
  typedef compute_t<T> C;
  Vec<T, N> v;
  C sum[N];
  if (p.add) v = load_vec<N>(to);
  MPSX_UNROLL for (uint j = 0; j < N; ++j) sum[j] = p.add ? C(v.v[j]) : C(0);
  for (uint i = first; i < end; ++i) {
    v = load_vec<N>(block + ulong(rows[i]) * p.row);
    MPSX_UNROLL for (uint j = 0; j < N; ++j) sum[j] = sum_of(sum[j], C(v.v[j]));
  }
  MPSX_UNROLL for (uint j = 0; j < N; ++j) v.v[j] = T(p.by_frequency ? share(sum[j], end - first) : sum[j]);
  store_vec(to, v);
}

// The threads of the first entry with a key sum all rows with that key. group = (block of p.rows_per_group entries in
// sorted order, outer block).
template <typename T>
kernel void segment_sum(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                        device const uint* keys [[buffer(2)]], device const long* rows [[buffer(3)]],
                        constant SegmentParams& p [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const uint across = max(threads.x / p.rows_per_group, 1u), parts = threads.x / across, part = tid / across;
  const uint last = min((group.x + 1) * p.rows_per_group, p.count);
  device const T* block = in + ulong(group.y) * p.count * p.row;
  for (uint first = group.x * p.rows_per_group + part; first < last && part < parts; first += parts) {
    const uint key = keys[first];
    if ((first > 0 && keys[first - 1] == key) || long(key) == p.padding) continue;
    uint end = first + 1;
    while (end < p.count && keys[end] == key) ++end;
    device T* to = out + (long(group.y) * p.outer + long(key) * p.pitch);
    const uint whole = p.vectorized ? p.row / sum_vec_size<T> * sum_vec_size<T> : 0, column = tid - part * across;
    for (uint c = column * sum_vec_size<T>; c < whole; c += across * sum_vec_size<T>)
      sum_columns<sum_vec_size<T>>(to + c, block + c, rows, first, end, p);
    for (uint c = whole + column; c < p.row; c += across) sum_columns<1>(to + c, block + c, rows, first, end, p);
  }
}

#define SEGMENT(T, TAG, ...) MPSX_KERNEL("segment_sum_" #TAG, segment_sum<T>)
MPSX_FOR_ALL(SEGMENT, )
