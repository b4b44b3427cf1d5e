// A threadgroup's digit counters. Thread t counts the digits of adjacent elements in counts[digit * threads + t]. From
// a prefix sum over all counters, each thread gets the output positions of its elements.
#pragma once

#include "lib/collective.h"
#include "sort/keys.h"
#include "sort/params.h"

inline uint bits_of(ulong x) { return x ? 64 - uint(clz(x)) : 0u; }

// Returns the number of bits per digit, which the number of counters limits. With one thread per threadgroup, it is 8.
inline uint digit_bits(GroupThread g) {
  uint bits = 8;
  while (bits > 1 && (g.count << bits) > kCounters) --bits;
  return bits;
}

// The smallest and largest keys of a row.
template <typename K>
struct Span {
  K min_key, max_key;
};
template <typename T>
inline Span<sort_key_t<T>> span_of(device const T* x, uint n, uint order, threadgroup ulong* scratch, GroupThread g) {
  typedef sort_key_t<T> K;
  K min_key = K(~K(0)), max_key = 0;
  MPSX_REDUCE(min : min_key)
  for (uint i = g.index; i < n; i += g.count) {
    const K key = key_in_order(x[i], order);
    min_key = key < min_key ? key : min_key;
  }
  MPSX_REDUCE(max : max_key)
  for (uint i = g.index; i < n; i += g.count) {
    const K key = key_in_order(x[i], order);
    max_key = key > max_key ? key : max_key;
  }
  return {K(tg_min(ulong(min_key), scratch, g)), K(tg_max(ulong(max_key), scratch, g))};
}

struct Digits {
  uint shift, mask;
  template <typename K> uint of(K key) const { return uint(key >> shift) & mask; }
};

// The part of a row that a thread processes.
struct Part {
  uint begin, end;
};
inline Part part_of(uint n, GroupThread g) {
  const uint each = n / g.count, rest = n - each * g.count;
  const uint begin = g.index * each + min(g.index, rest);
  return {begin, begin + each + (g.index < rest ? 1u : 0u)};
}

inline void clear_counts(threadgroup uint* counts, uint digits, GroupThread g) {
  for (uint d = 0; d < digits; ++d) counts[d * g.count + g.index] = 0;
}

// Computes the exclusive prefix sum over the counters.
inline void sum_counts(threadgroup uint* counts, uint digits, threadgroup uint* scratch, GroupThread g) {
  tg_barrier();
  const uint first = g.index * digits;
  uint own = 0, all;
  for (uint i = 0; i < digits; ++i) own += counts[first + i];
  uint before = tg_prefix_sum(own, all, scratch, g);
  for (uint i = 0; i < digits; ++i) {
    const uint here = counts[first + i];
    counts[first + i] = before;
    before += here;
  }
  tg_barrier();
}

// Returns how many of `n` elements have a digit below `digit`, given the prefix sums from sum_counts.
inline uint before_digit(threadgroup const uint* counts, uint digit, uint digits, uint n, GroupThread g) {
  return digit < digits ? counts[digit * g.count] : n;
}
