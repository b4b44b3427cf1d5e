// Collective operations of a threadgroup (tg_) or a SIMD group (sg_) that threadgroup.h does not have: sums over lanes,
// indices of maxima, moments, and prefix sums.
#pragma once

#include "lib/threadgroup.h"

// A thread's SIMD group: its index in the threadgroup, the number of SIMD groups, this thread's lane, and the number of
// active lanes.
struct SimdGroup {
  uint index, count, lane, lanes;
};
inline SimdGroup sg_position(GroupThread g) {
  const uint index = g.index / g.width, count = (g.count + g.width - 1) / g.width;
  return {index, count, g.lane, min(g.width, g.count - index * g.width)};
}
// Sums v over the lanes of the SIMD group. Every lane gets the result.
inline float sg_sum(float v) { return simd_sum(v); }
inline float2 sg_sum(float2 v) { return float2(simd_sum(v.x), simd_sum(v.y)); }

// A value and its index. If values are equal, the lower index wins.
template <typename K, typename I = long>
struct Indexed {
  K key;
  I index;
};
template <typename K, typename I>
inline Indexed<K, I> shuffle_down(Indexed<K, I> v, ushort by) {
  return {shuffle_down(v.key, by), shuffle_down(v.index, by)};
}
template <typename K, typename I>
inline Indexed<K, I> shuffle_xor(Indexed<K, I> v, ushort by) {
  return {shuffle_xor(v.key, by), shuffle_xor(v.index, by)};
}
// The count, the mean, and the sum of squared deviations of a set of values.
struct Moments {
  float count, mean, m2;
};

// Returns a bit mask of the SIMD group's lanes in which `v` is true.
inline uint lanes_with(bool v) { return uint(simd_vote::vote_t(simd_ballot(v))); }

struct CombineArgMax {
  template <typename K, typename I>
  static Indexed<K, I> apply(Indexed<K, I> a, Indexed<K, I> b) {
    return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
  }
};
// Merges two sets of moments (T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
// computing sample variances"). An infinite mean stays infinite, as in a sum.
struct CombineMoments {
  static Moments apply(Moments a, Moments b) {
    const float count = a.count + b.count, delta = b.mean - a.mean;
    const float share = count > 0.0f ? b.count / count : 0.0f;
    const float mean = is_infinite(a.mean) ? a.mean + b.mean : fma(delta, share, a.mean);
    return {count, mean, a.m2 + b.m2 + delta * delta * a.count * share};
  }
};

// Reduces over the four lanes whose indices differ only in the two given bits.
inline float pair_max(float v, ushort first, ushort second) {
  v = max(v, simd_shuffle_xor(v, first));
  return max(v, simd_shuffle_xor(v, second));
}
// Sums the values in each pair of lanes (2i, 2i + 1).
inline float lane_pair_sum(float v) { return v + simd_shuffle_xor(v, 1); }
inline float pair_sum(float v, ushort first, ushort second) {
  v += simd_shuffle_xor(v, first);
  return v + simd_shuffle_xor(v, second);
}

template <typename K> inline Indexed<K> tg_argmax(Indexed<K> v, threadgroup Indexed<K>* scratch, GroupThread g) {
  return tg_reduce<CombineArgMax>(v, scratch, g);
}
inline bool tg_any(bool v, threadgroup uint* scratch, GroupThread g) {
  return tg_max(uint(v), scratch, g) != 0u;
}

// Returns the exclusive prefix sum in thread order. Sets `total` to the sum over all threads.
template <typename T>
inline T tg_prefix_sum(T v, thread T& total, threadgroup T* scratch, GroupThread g) {
  if (g.count == 1) {
    total = v;
    return T(0);
  }
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  T sum = v;  // inclusive prefix sum within the SIMD group
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
