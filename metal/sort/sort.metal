// Stable sorts of rows, with the places of their elements: by rank where rows are short, else by radix from the last
// digit on, of keys less the smallest, so that numbers near each other have few digits.
#include "lib/instantiate.h"
#include "sort/radix.h"

// An element's place is the number of elements that come before it.
template <typename T>
inline void sort_by_rank(device T* values, device long* places, device const T* x, uint n, uint order,
                         threadgroup sort_key_t<T>* keys, GroupThread g) {
  typedef sort_key_t<T> K;
  for (uint i = g.index; i < n; i += g.count) keys[i] = key_in_order(x[i], order);
  tg_barrier();
  for (uint i = g.index; i < n; i += g.count) {
    const K key = keys[i];
    uint rank = 0;
    MPSX_REDUCE(+ : rank)
    for (uint k = 0; k < i; ++k) rank += keys[k] <= key ? 1u : 0u;
    MPSX_REDUCE(+ : rank)
    for (uint k = i + 1; k < n; ++k) rank += keys[k] < key ? 1u : 0u;
    values[rank] = x[i];
    places[rank] = long(i);
  }
}

// Up to kTiny elements, `step` apart, by one thread: each is put where it belongs among those before it.
template <typename T>
inline void sort_tiny(device T* values, device long* places, device const T* x, uint n, ulong step, uint order) {
  typedef sort_key_t<T> K;
  K keys[kTiny];
  uint at[kTiny];
  for (uint i = 0; i < n; ++i) {
    const K key = key_in_order(x[i * step], order);
    uint k = i;
    for (; k > 0 && keys[k - 1] > key; --k) {
      keys[k] = keys[k - 1];
      at[k] = at[k - 1];
    }
    keys[k] = key;
    at[k] = i;
  }
  MPSX_FEW
  for (uint i = 0; i < n; ++i) {
    values[i * step] = x[at[i] * step];
    places[i * step] = long(at[i]);
  }
}

// Tiny columns of a dense block (outer, size, inner): gid = (column, outer).
template <typename T>
kernel void sort_columns(device T* values [[buffer(0)]], device long* places [[buffer(1)]],
                         device const T* in [[buffer(2)]], constant SortParams& p [[buffer(3)]],
                         uint2 gid [[thread_position_in_grid]]) {
  const ulong begin = ulong(gid.y) * p.size * p.inner + gid.x;
  sort_tiny(values + begin, places + begin, in + begin, p.size, p.inner, p.order);
}

// keys and order: two rows of `size` each, which take turns.
template <typename T>
kernel void sort_rows(device T* values [[buffer(0)]], device long* places [[buffer(1)]],
                      device sort_key_t<T>* keys [[buffer(2)]], device uint* order [[buffer(3)]],
                      device const T* in [[buffer(4)]], constant SortParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  typedef sort_key_t<T> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint counts[kCounters];
  threadgroup uint scratch[kScratch];
  threadgroup K ranked[kRanked];
  const uint n = p.size;
  const ulong begin = ulong(g.group.x) * n;
  device const T* x = in + begin;
  values += begin;
  places += begin;
  if (n <= kRanked) {
    sort_by_rank(values, places, x, n, p.order, ranked, g);
    return;
  }
  device K *from = keys + 2 * begin, *to = from + n;
  device uint *from_order = order + 2 * begin, *to_order = from_order + n;
  threadgroup ulong spans[kScratch];
  const Span<K> span = span_of(x, n, p.order, spans, g);
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) {
    from[i] = K(key_in_order(x[i], p.order) - span.least);
    from_order[i] = i;
  }
  tg_device_barrier();
  const uint bits = digit_bits(g), digits = 1u << bits, used = bits_of(ulong(K(span.most - span.least)));
  const Part part = part_of(n, g);
  for (uint shift = 0; shift < used; shift += bits) {
    const Digits digit = {shift, digits - 1};
    clear_counts(counts, digits, g);
    for (uint i = part.begin; i < part.end; ++i) ++counts[digit.of(from[i]) * g.count + g.index];
    sum_counts(counts, digits, scratch, g);
    const uint first = digit.of(from[0]);
    const uint before = before_digit(counts, first, digits, n, g);
    const bool all_equal = before_digit(counts, first + 1, digits, n, g) - before == n;
    tg_barrier();
    if (all_equal) continue;
    for (uint i = part.begin; i < part.end; ++i) {
      const uint place = counts[digit.of(from[i]) * g.count + g.index]++;
      to[place] = from[i];
      to_order[place] = from_order[i];
    }
    tg_device_barrier();
    device K* const keys_done = from;
    device uint* const order_done = from_order;
    from = to, from_order = to_order;
    to = keys_done, to_order = order_done;
  }
  for (uint i = g.index; i < n; i += g.count) {
    values[i] = x[from_order[i]];
    places[i] = long(from_order[i]);
  }
}

#define MPSX_SORT(T, TAG, ...)                          \
  MPSX_KERNEL("sort_rows_" #TAG, sort_rows<T>)          \
  MPSX_KERNEL("sort_columns_" #TAG, sort_columns<T>)
MPSX_FOR_ALL(MPSX_SORT)
