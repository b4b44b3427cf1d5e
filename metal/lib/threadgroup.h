// Barriers and reductions of a threadgroup (tg_), or of the threads that share a row, which are called a row group
// (rg_). Only this file and lib/collective.h call barriers and simd_* functions. Both files work with any number of
// threads and any SIMD width, including 1. If threadgroups have one thread, as on CPUs, barriers and reductions compile
// to nothing.
//
//   kernel void row_sum(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
//                       constant uint& n [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
//     const GroupThread g = MPSX_GROUP_THREAD;
//     threadgroup float scratch[kScratch];
//     float s = 0;
//     MPSX_REDUCE(+ : s)
//     for (uint i = g.index; i < n; i += g.count) s += x[i];
//     s = tg_sum(s, scratch, g);      // every thread gets the sum
//     if (g.index == 0) out[g.group.x] = s;
//   }
#pragma once

#include "lib/arithmetic.h"

struct GroupThread {
  uint3 group;  // the threadgroup's position in the grid
  uint index;   // index in the (one-dimensional) threadgroup
  uint count;   // threads in the threadgroup
  uint lane;    // index in the SIMD group
  uint width;   // threads in a SIMD group
};
#define MPSX_GROUP_PARAMETERS                                                                              \
  uint3 mpsx_group [[threadgroup_position_in_grid]], uint3 mpsx_threads [[threads_per_threadgroup]],       \
      uint mpsx_index [[thread_index_in_threadgroup]], uint mpsx_lane [[thread_index_in_simdgroup]],       \
      uint mpsx_width [[threads_per_simdgroup]]
#define MPSX_GROUP_THREAD {mpsx_group, mpsx_index, mpsx_threads.x, mpsx_lane, mpsx_width}

// Size of the threadgroup memory that a reduction needs, in elements.
enum : uint { kScratch = 32 };

// Barriers for accesses to threadgroup memory, device memory, or both.
inline void tg_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
inline void sg_barrier() { simdgroup_barrier(mem_flags::mem_threadgroup); }
inline void tg_device_barrier() { threadgroup_barrier(mem_flags::mem_device); }
inline void tg_all_barrier() { threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }
inline void sg_all_barrier() { simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); }

// Two values at the same index, for example a gradient and an input.
struct Pair {
  float a, b;
};

// simd_shuffle_* for every type. If the source lane does not exist, the result is unspecified.
#define MPSX_SHUFFLE(NAME)                                                              \
  template <typename T> inline T NAME(T v, ushort by) { return simd_##NAME(v, by); }    \
  inline bool NAME(bool v, ushort by) { return simd_##NAME(uint(v), by) != 0u; }        \
  inline ulong NAME(ulong v, ushort by) { /* shuffles take at most 32 bits */           \
    const uint2 halves = as_type<uint2>(v);                                             \
    return as_type<ulong>(uint2(simd_##NAME(halves.x, by), simd_##NAME(halves.y, by))); \
  }                                                                                     \
  inline long NAME(long v, ushort by) { return long(NAME(ulong(v), by)); }
MPSX_SHUFFLE(shuffle_down)
MPSX_SHUFFLE(shuffle_up)
MPSX_SHUFFLE(shuffle_xor)
#undef MPSX_SHUFFLE

// Functors that combine two partial results. CombineMax and CombineMin propagate NaN.
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

// Reduces one value per thread of the threadgroup and returns the result in every thread. The order of operations
// depends only on the threadgroup's shape. All threads must call this. `scratch` can be reused immediately afterwards.
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

// The threads that process a row: a whole threadgroup, or a power-of-two part of a SIMD group.
struct RowGroup {
  uint row, index, count;  // the row; this thread's index in the group; number of threads in the group
  bool spans_threadgroup;
};
// Divides the threadgroup into groups of `threads` threads. Leftover threads that do not fill a group get the row
// `rows`, which is out of range.
inline RowGroup row_group(uint rows, uint threads, GroupThread g) {
  if (threads > g.width || threads > g.count) return {g.group.x, g.index, g.count, true};
  const uint shift = ctz(threads), groups = g.count >> shift, group = g.index >> shift;
  return {group < groups ? g.group.x * groups + group : rows, g.index & (threads - 1), threads, false};
}
inline uint row_groups(RowGroup group, GroupThread g) { return group.spans_threadgroup ? 1 : g.count / group.count; }
// Reduces one value per thread of a row group and returns the result in each of its threads.
template <typename Combine, typename T>
inline T rg_reduce(T v, threadgroup T* scratch, RowGroup group, GroupThread g) {
  if (group.spans_threadgroup) return tg_reduce<Combine>(v, scratch, g);
  for (uint distance = group.count / 2; distance > 0; distance /= 2)
    v = Combine::apply(v, shuffle_xor(v, ushort(distance)));
  return v;
}
