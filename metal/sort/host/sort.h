// Sorts rows of any length on the host driver, where a threadgroup is one thread. Alternates between two buffers of
// keys and indices. Subtracts the smallest key, because that may leave fewer digits to sort by.
#include "sort/radix.h"

template <typename T>
kernel void sort_rows(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
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
  indices += begin;
  if (n <= kRanked) {
    sort_by_rank(values, indices, x, n, p.order, ranked, g);
    return;
  }
  device K *from = keys + 2 * begin, *to = from + n;
  device uint *from_order = order + 2 * begin, *to_order = from_order + n;
  threadgroup ulong spans[kScratch];
  const Span<K> span = span_of(x, n, p.order, spans, g);
  MPSX_VECTORIZE
  for (uint i = g.index; i < n; i += g.count) {
    from[i] = K(key_in_order(x[i], p.order) - span.min_key);
    from_order[i] = i;
  }
  tg_device_barrier();
  const uint bits = digit_bits(g), digits = 1u << bits, used = bits_of(ulong(K(span.max_key - span.min_key)));
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
      const uint slot = counts[digit.of(from[i]) * g.count + g.index]++;
      to[slot] = from[i];
      to_order[slot] = from_order[i];
    }
    tg_device_barrier();
    device K* const keys_done = from;
    device uint* const order_done = from_order;
    from = to, from_order = to_order;
    to = keys_done, to_order = order_done;
  }
  for (uint i = g.index; i < n; i += g.count) {
    values[i] = x[from_order[i]];
    indices[i] = long(from_order[i]);
  }
}
