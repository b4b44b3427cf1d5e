// Collective operations over a threadgroup (tg_), a SIMD group (sg_), or a row group (rg_), the threads that share a
// row. No other file calls simd_* or barriers. The functions work for any number of threads and any SIMD width,
// including 1. With one thread per threadgroup (a CPU build) they compile to nothing.
//
//   kernel void row_sum(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
//                       constant uint& n [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
//     const GroupThread g = MPSX_GROUP_THREAD;
//     threadgroup float scratch[kScratch];
//     float s = 0;
//     MPSX_REDUCE(+ : s)
//     for (uint i = g.index; i < n; i += g.count) s += x[i];
//     s = tg_sum(s, scratch, g);      // in every thread
//     if (g.index == 0) out[g.group.x] = s;
//   }
#pragma once

#include "lib/arithmetic.h"

struct GroupThread {
  uint3 group;  // the threadgroup's position in the grid
  uint index;   // this thread's index in its (one-dimensional) threadgroup
  uint count;   // threads in the threadgroup
  uint lane;    // this thread's index in its SIMD group
  uint width;   // threads in a SIMD group
};
#define MPSX_GROUP_PARAMETERS                                                                              \
  uint3 mpsx_group [[threadgroup_position_in_grid]], uint3 mpsx_threads [[threads_per_threadgroup]],       \
      uint mpsx_index [[thread_index_in_threadgroup]], uint mpsx_lane [[thread_index_in_simdgroup]],       \
      uint mpsx_width [[threads_per_simdgroup]]
#define MPSX_GROUP_THREAD {mpsx_group, mpsx_index, mpsx_threads.x, mpsx_lane, mpsx_width}

// Size of the threadgroup scratch array for a reduction.
enum : uint { kScratch = 32 };

// Barriers that order accesses to threadgroup memory, to device memory, or to both.
inline void tg_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
inline void sg_barrier() { simdgroup_barrier(mem_flags::mem_threadgroup); }
inline void tg_device_barrier() { threadgroup_barrier(mem_flags::mem_device); }
inline void tg_all_barrier() { threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }

// A thread's SIMD group: its index, the number of SIMD groups, this lane, and the number of active lanes.
struct SimdGroup {
  uint index, count, lane, lanes;
};
inline SimdGroup sg_position(GroupThread g) {
  const uint index = g.index / g.width, count = (g.count + g.width - 1) / g.width;
  return {index, count, g.lane, min(g.width, g.count - index * g.width)};
}
// Sums over the lanes of the SIMD group. Every lane gets the result.
inline float sg_sum(float v) { return simd_sum(v); }
inline float2 sg_sum(float2 v) { return float2(simd_sum(v.x), simd_sum(v.y)); }

// A value and its index. Ties go to the lower index.
template <typename K, typename I = long>
struct Indexed {
  K key;
  I index;
};
// Two values at the same index, such as a gradient and an input.
struct Pair {
  float a, b;
};
// Count, mean and sum of squared deviations of a set of values.
struct Moments {
  float count, mean, m2;
};

// simd_shuffle_down for every type. The value is unspecified if the source lane does not exist.
template <typename T> inline T shuffle_down(T v, ushort distance) { return simd_shuffle_down(v, distance); }
inline bool shuffle_down(bool v, ushort distance) { return simd_shuffle_down(uint(v), distance) != 0u; }
inline long shuffle_down(long v, ushort distance) {  // shuffles support at most 32 bits
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_down(halves.x, distance), simd_shuffle_down(halves.y, distance)));
}
inline ulong shuffle_down(ulong v, ushort distance) { return ulong(shuffle_down(long(v), distance)); }
template <typename K, typename I>
inline Indexed<K, I> shuffle_down(Indexed<K, I> v, ushort distance) {
  return {shuffle_down(v.key, distance), shuffle_down(v.index, distance)};
}

// simd_shuffle_up for every type.
template <typename T> inline T shuffle_up(T v, ushort distance) { return simd_shuffle_up(v, distance); }
inline long shuffle_up(long v, ushort distance) {
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_up(halves.x, distance), simd_shuffle_up(halves.y, distance)));
}
inline ulong shuffle_up(ulong v, ushort distance) { return ulong(shuffle_up(long(v), distance)); }

// A mask with one bit per lane of the SIMD group, set where `v` is true.
inline uint lanes_with(bool v) { return uint(simd_vote::vote_t(simd_ballot(v))); }

// simd_shuffle_xor for every type.
template <typename T> inline T shuffle_xor(T v, ushort mask) { return simd_shuffle_xor(v, mask); }
inline long shuffle_xor(long v, ushort mask) {
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_xor(halves.x, mask), simd_shuffle_xor(halves.y, mask)));
}
inline ulong shuffle_xor(ulong v, ushort mask) { return ulong(shuffle_xor(long(v), mask)); }
template <typename K, typename I>
inline Indexed<K, I> shuffle_xor(Indexed<K, I> v, ushort mask) {
  return {shuffle_xor(v.key, mask), shuffle_xor(v.index, mask)};
}

// Reduction operators. Max and min propagate NaN.
struct CombineSum {
  template <typename T> static T apply(T a, T b) { return a + b; }
};
struct CombineProduct {
  template <typename T> static T apply(T a, T b) { return multiply(a, b); }
};
struct CombineMax {
  template <typename T> static T apply(T a, T b) { return propagating_max(a, b); }
};
struct CombineMin {
  template <typename T> static T apply(T a, T b) { return propagating_min(a, b); }
};
struct CombineArgMax {
  template <typename K, typename I>
  static Indexed<K, I> apply(Indexed<K, I> a, Indexed<K, I> b) {
    return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
  }
};
// T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances".
struct CombineMoments {
  static Moments apply(Moments a, Moments b) {
    const float count = a.count + b.count, delta = b.mean - a.mean;
    const float share = count > 0.0f ? b.count / count : 0.0f;
    return {count, fma(delta, share, a.mean), a.m2 + b.m2 + delta * delta * a.count * share};
  }
};

// Reduces over four lanes, which differ only in the bits `first` and `second` of their index.
inline float pair_max(float v, ushort first, ushort second) {
  v = max(v, simd_shuffle_xor(v, first));
  return max(v, simd_shuffle_xor(v, second));
}
inline float pair_sum(float v, ushort first, ushort second) {
  v += simd_shuffle_xor(v, first);
  return v + simd_shuffle_xor(v, second);
}

// Reduces one value per thread of the threadgroup and returns the result to every thread. The order of operations
// depends only on the threadgroup's shape. All threads must call it. `scratch` can be reused immediately.
template <typename Combine, typename T>
inline T tg_reduce(T v, threadgroup T* scratch, GroupThread g) {
  if (g.count == 1) return v;
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  for (uint distance = g.width / 2; distance > 0; distance /= 2) {
    const T other = shuffle_down(v, ushort(distance));
    if (g.lane + distance < active) v = Combine::apply(v, other);
  }
  T result = v;
  for (uint first = 0; first < simdgroups; first += kScratch) {
    if (g.lane == 0 && simdgroup >= first && simdgroup < first + kScratch) scratch[simdgroup - first] = v;
    tg_barrier();
    const uint end = min(uint(kScratch), simdgroups - first);
    uint i = 0;
    if (first == 0) result = scratch[i++];
    for (; i < end; ++i) result = Combine::apply(result, scratch[i]);
    tg_barrier();
  }
  return result;
}

template <typename T> inline T tg_sum(T v, threadgroup T* scratch, GroupThread g) {
  return tg_reduce<CombineSum>(v, scratch, g);
}
template <typename T> inline T tg_max(T v, threadgroup T* scratch, GroupThread g) {
  return tg_reduce<CombineMax>(v, scratch, g);
}
template <typename T> inline T tg_min(T v, threadgroup T* scratch, GroupThread g) {
  return tg_reduce<CombineMin>(v, scratch, g);
}
template <typename K> inline Indexed<K> tg_argmax(Indexed<K> v, threadgroup Indexed<K>* scratch, GroupThread g) {
  return tg_reduce<CombineArgMax>(v, scratch, g);
}
inline bool tg_any(bool v, threadgroup uint* scratch, GroupThread g) {
  return tg_max(uint(v), scratch, g) != 0u;
}

// The threads that share a row: a power-of-two number of lanes in a SIMD group, or the whole threadgroup.
struct RowGroup {
  uint row, index, count;  // row index; this thread's index in the row group; number of threads
  bool spans_threadgroup;
};
// Splits a threadgroup into row groups of `threads` threads. Threads past the last full group get `rows`, an
// out-of-range row.
inline RowGroup row_group(uint rows, uint threads, GroupThread g) {
  if (threads > g.width || threads > g.count) return {g.group.x, g.index, g.count, true};
  const uint shift = ctz(threads), groups = g.count >> shift, group = g.index >> shift;
  return {group < groups ? g.group.x * groups + group : rows, g.index & (threads - 1), threads, false};
}
// The number of row groups in a threadgroup.
inline uint row_groups(RowGroup group, GroupThread g) { return group.spans_threadgroup ? 1 : g.count / group.count; }
// Reduces one value per thread of a row group and returns the result to each of its threads.
template <typename Combine, typename T>
inline T rg_reduce(T v, threadgroup T* scratch, RowGroup group, GroupThread g) {
  if (group.spans_threadgroup) return tg_reduce<Combine>(v, scratch, g);
  for (uint distance = group.count / 2; distance > 0; distance /= 2)
    v = Combine::apply(v, shuffle_xor(v, ushort(distance)));
  return v;
}

// Exclusive prefix sum in thread order. `total`: the sum over all threads.
template <typename T>
inline T tg_prefix_sum(T v, thread T& total, threadgroup T* scratch, GroupThread g) {
  if (g.count == 1) {
    total = v;
    return T(0);
  }
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  T sum = v;  // the SIMD group's inclusive prefix sum
  for (uint distance = 1; distance < g.width; distance *= 2) {
    const T other = simd_shuffle_up(sum, ushort(distance));
    if (g.lane >= distance) sum += other;
  }
  T before = T(0), all = T(0);
  for (uint first = 0; first < simdgroups; first += kScratch) {
    if (g.lane == active - 1 && simdgroup >= first && simdgroup < first + kScratch) scratch[simdgroup - first] = sum;
    tg_barrier();
    for (uint i = 0, end = min(uint(kScratch), simdgroups - first); i < end; ++i) {
      if (first + i < simdgroup) before += scratch[i];
      all += scratch[i];
    }
    tg_barrier();
  }
  total = all;
  return before + (sum - v);
}

// Maps floats to integers with the same order. `ordered_max` maps NaN above everything. `ordered_min` reverses the
// order and also maps NaN to the top. An integer maximum thus computes either extremum and propagates NaN.
inline int float_order(float x) {
  const int bits = as_type<int>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float float_of_order(int key) { return as_type<float>(key ^ ((key >> 31) & 0x7fffffff)); }
inline int ordered_max(float x) { return is_nan(x) ? INT_MAX : float_order(x); }
inline int ordered_min(float x) { return is_nan(x) ? INT_MAX : ~float_order(x); }
inline float value_of_max(int key) { return float_of_order(key); }
inline float value_of_min(int key) { return key == INT_MAX ? NAN : float_of_order(~key); }
