// Collective operations of a threadgroup. The only place that calls simd_* and barriers; right for any number of
// threads and any SIMD width, one included. A group of one thread (a CPU build) compiles to nothing.
//
//   kernel void row_sum(device float* out [[buffer(0)]], device const float* x [[buffer(1)]], constant uint& n
// [[buffer(2)]],
//                       MPSX_GROUP_PARAMETERS) {
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
  uint index;   // this thread in its (one-dimensional) threadgroup
  uint count;   // threads in the threadgroup
  uint lane;    // this thread in its SIMD group
  uint width;   // threads in a SIMD group
};
#define MPSX_GROUP_PARAMETERS                                                                              \
  uint3 mpsx_group [[threadgroup_position_in_grid]], uint3 mpsx_threads [[threads_per_threadgroup]],       \
      uint mpsx_index [[thread_index_in_threadgroup]], uint mpsx_lane [[thread_index_in_simdgroup]],       \
      uint mpsx_width [[threads_per_simdgroup]]
#define MPSX_GROUP_THREAD {mpsx_group, mpsx_index, mpsx_threads.x, mpsx_lane, mpsx_width}

// Elements of the threadgroup array that a reduction needs.
enum : uint { kScratch = 32 };

// All threads of the group have arrived, and see what the others wrote to threadgroup memory.
inline void tg_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
// The same for the SIMD group alone.
inline void sg_barrier() { simdgroup_barrier(mem_flags::mem_threadgroup); }
// The same for device memory of this group.
inline void tg_device_barrier() { threadgroup_barrier(mem_flags::mem_device); }
// The same for both.
inline void tg_all_barrier() { threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }

// The SIMD groups of a threadgroup: this one, how many there are, this lane and the lanes that it has.
struct SimdGroup {
  uint index, count, lane, lanes;
};
inline SimdGroup sg_position(GroupThread g) {
  const uint index = g.index / g.width, count = (g.count + g.width - 1) / g.width;
  return {index, count, g.lane, min(g.width, g.count - index * g.width)};
}
// The sum over the lanes of the SIMD group, in every lane.
inline float sg_sum(float v) { return simd_sum(v); }
inline float2 sg_sum(float2 v) { return float2(simd_sum(v.x), simd_sum(v.y)); }

// A value and where it was found; the lower index wins a tie.
template <typename K, typename I = long>
struct Indexed {
  K key;
  I index;
};
// Count, mean and sum of squared deviations of a set of values.
struct Moments {
  float count, mean, m2;
};

// The value of the lane `distance` above; anything if there is none.
template <typename T> inline T lane_above(T v, ushort distance) { return simd_shuffle_down(v, distance); }
inline bool lane_above(bool v, ushort distance) { return simd_shuffle_down(uint(v), distance) != 0u; }
inline long lane_above(long v, ushort distance) {  // shuffles take at most 32 bits
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_down(halves.x, distance), simd_shuffle_down(halves.y, distance)));
}
inline ulong lane_above(ulong v, ushort distance) { return ulong(lane_above(long(v), distance)); }
template <typename K, typename I>
inline Indexed<K, I> lane_above(Indexed<K, I> v, ushort distance) {
  return {lane_above(v.key, distance), lane_above(v.index, distance)};
}

// The value of the lane `distance` below; anything if there is none.
template <typename T> inline T lane_below(T v, ushort distance) { return simd_shuffle_up(v, distance); }
inline long lane_below(long v, ushort distance) {
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_up(halves.x, distance), simd_shuffle_up(halves.y, distance)));
}
inline ulong lane_below(ulong v, ushort distance) { return ulong(lane_below(long(v), distance)); }

// The lanes of the SIMD group where `v` is true, a bit each.
inline uint lanes_with(bool v) { return uint(simd_vote::vote_t(simd_ballot(v))); }

// How two partial results become one. max and min propagate NaN.
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
// T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances".
struct CombineMoments {
  static Moments apply(Moments a, Moments b) {
    const float count = a.count + b.count, delta = b.mean - a.mean;
    const float share = count > 0.0f ? b.count / count : 0.0f;
    return {count, fma(delta, share, a.mean), a.m2 + b.m2 + delta * delta * a.count * share};
  }
};

// Of four lanes that differ in `first`, `second` or both: powers of two.
inline float pair_max(float v, ushort first, ushort second) {
  v = max(v, simd_shuffle_xor(v, first));
  return max(v, simd_shuffle_xor(v, second));
}
inline float pair_sum(float v, ushort first, ushort second) {
  v += simd_shuffle_xor(v, first);
  return v + simd_shuffle_xor(v, second);
}

// Reduces one value of every thread of the group, in an order that depends on the group's shape alone; every thread
// gets the result. All threads must call it. `scratch` can be used again at once.
template <typename Combine, typename T>
inline T tg_reduce(T v, threadgroup T* scratch, GroupThread g) {
  if (g.count == 1) return v;
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  for (uint distance = g.width / 2; distance > 0; distance /= 2) {
    const T other = lane_above(v, ushort(distance));
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

// The sum over the threads before this one (exclusive), in thread order. `total`: the sum over all.
template <typename T>
inline T tg_prefix_sum(T v, thread T& total, threadgroup T* scratch, GroupThread g) {
  if (g.count == 1) {
    total = v;
    return T(0);
  }
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  T sum = v;  // inclusive, over this lane and those below
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

// Integers that order as floats do: `ordered_max` puts NaN above everything, and `ordered_min` reverses the order,
// again with NaN on top. One integer maximum then serves both and propagates NaN.
inline int float_order(float x) {
  const int bits = as_type<int>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float float_of_order(int key) { return as_type<float>(key ^ ((key >> 31) & 0x7fffffff)); }
inline int ordered_max(float x) { return is_nan(x) ? INT_MAX : float_order(x); }
inline int ordered_min(float x) { return is_nan(x) ? INT_MAX : ~float_order(x); }
inline float value_of_max(int key) { return float_of_order(key); }
inline float value_of_min(int key) { return key == INT_MAX ? NAN : float_of_order(~key); }
