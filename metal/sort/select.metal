// Elements of rows by their rank, without sorting: the digits of the key of that rank, from the first digit on.
#include "lib/instantiate.h"
#include "sort/radix.h"
#include "sort/short_row.h"

// The element of a rank: keys less `least`, without their last `shift` bits, are `prefix`; or smaller, which `before` are.
template <typename K>
struct Threshold {
  K least, prefix;
  uint shift, before;
  uint left;  // elements that have the prefix

  // (A shift by all bits would be undefined.)
  K of(K key) const { return shift < sizeof(K) * 8 ? K(K(key - least) >> shift) : K(0); }
};

// Which element of a row has rank `rank` (from 0). Stops as soon as it is told apart from the others, or (`together`) is
// the last of those that share its prefix.
template <typename T>
inline Threshold<sort_key_t<T>> find_rank(device const T* x, uint n, uint rank, uint order, bool together,
                                          threadgroup uint* counts, threadgroup uint* scratch,
                                          threadgroup ulong* span_scratch, GroupThread g) {
  typedef sort_key_t<T> K;
  const Span<K> span = span_of(x, n, order, span_scratch, g);
  const uint bits = digit_bits(g);
  const Part part = part_of(n, g);
  Threshold<K> t = {span.least, K(0), bits_of(ulong(K(span.most - span.least))), 0, n};
  while (t.shift > 0 && !(together && t.left == rank - t.before + 1) && t.left > 1) {
    const uint step = min(bits, t.shift), digits = 1u << step;
    const uint shift = t.shift - step;
    clear_counts(counts, digits, g);
    for (uint i = part.begin; i < part.end; ++i) {
      const K key = key_in_order(x[i], order);
      const uint matches = t.of(key) == t.prefix ? 1u : 0u;  // of others 0 is added, which costs less than a branch
      counts[(uint(K(key - t.least) >> shift) & (digits - 1)) * g.count + g.index] += matches;
    }
    sum_counts(counts, digits, scratch, g);
    uint low = 0, high = digits;  // the last digit with at most `rank - before` elements before it
    while (high - low > 1) {
      const uint middle = (low + high) / 2;
      if (before_digit(counts, middle, digits, t.left, g) <= rank - t.before)
        low = middle;
      else
        high = middle;
    }
    const uint at = before_digit(counts, low, digits, t.left, g);
    t.left = before_digit(counts, low + 1, digits, t.left, g) - at;
    t.before += at;
    t.prefix = K(K(t.prefix << step) | K(low));
    t.shift = shift;
    tg_barrier();
  }
  return t;
}

// How many elements of a short row come before element i.
template <typename T>
inline uint rank_of(device const T* x, uint i, uint n, uint order) {
  const sort_key_t<T> key = key_in_order(x[i], order);
  uint rank = 0;
  MPSX_REDUCE(+ : rank)
  for (uint k = 0; k < i; ++k) rank += key_in_order(x[k], order) <= key ? 1u : 0u;
  MPSX_REDUCE(+ : rank)
  for (uint k = i + 1; k < n; ++k) rank += key_in_order(x[k], order) < key ? 1u : 0u;
  return rank;
}

#if !MPSX_VECTOR_BYTES
// Few elements of a long row, in order: on a CPU one pass that keeps the first ones so far. Key and place in one number
// are in the order of a stable sort, and most blocks of a row have nothing that comes before the last of those kept.
template <uint Few, typename T>
inline void few_first(device T* values, device long* places, device const T* x, uint n, uint count, uint order) {
  typedef sort_key_t<T> K;
  enum : uint { kBlock = 64 };
  ulong kept[Few + 1], next[Few + 1];  // from 1 on
  for (uint i = 0; i <= Few; ++i) kept[i] = i == 0 ? 0ul : ~0ul;
  for (uint begin = 0; begin < n;) {
    const uint end = begin < count ? count : min(begin + kBlock, n);
    const K last = K(kept[count] >> 32);
    uint found = begin < count ? 1u : 0u;
    MPSX_REDUCE(| : found)
    for (uint i = begin; i < end; ++i) found |= key_in_order(x[i], order) < last ? 1u : 0u;
    for (uint i = begin; found && i < end; ++i) {
      const ulong item = ulong(key_in_order(x[i], order)) << 32 | i;
      if (item >= kept[count]) continue;
      for (uint k = 1; k <= Few; ++k) next[k] = max(kept[k - 1], min(kept[k], item));
      for (uint k = 1; k <= Few; ++k) kept[k] = next[k];
    }
    begin = end;
  }
  for (uint k = 0; k < count; ++k) {
    const uint place = uint(kept[k + 1]);
    values[k] = x[place];
    places[k] = long(place);
  }
}
// The same of keys that leave no room for the place.
template <typename T>
inline void few_wide(device T* values, device long* places, device const T* x, uint n, uint count, uint order) {
  typedef sort_key_t<T> K;
  enum : uint { kBlock = 64 };
  K keys[kFew];
  uint at[kFew];
  uint kept = 0;
  for (uint begin = 0; begin < n; begin += kBlock) {
    const uint end = min(begin + kBlock, n);
    const K last = kept < count ? K(~K(0)) : keys[count - 1];
    uint found = kept < count ? 1u : 0u;
    MPSX_REDUCE(| : found)
    for (uint i = begin; i < end; ++i) found |= key_in_order(x[i], order) < last ? 1u : 0u;
    for (uint i = begin; found && i < end; ++i) {
      const K key = key_in_order(x[i], order);
      if (kept == count && key >= keys[count - 1]) continue;
      uint k = kept < count ? kept++ : count - 1;
      for (; k > 0 && keys[k - 1] > key; --k) {
        keys[k] = keys[k - 1];
        at[k] = at[k - 1];
      }
      keys[k] = key;
      at[k] = i;
    }
  }
  for (uint k = 0; k < count; ++k) {
    values[k] = x[at[k]];
    places[k] = long(at[k]);
  }
}
#endif

// topk: the elements before the rank, and as many of its equals as there is room for: in order where rows are short,
// else as they come.
template <typename T>
kernel void select_first(device T* values [[buffer(0)]], device long* places [[buffer(1)]],
                         device const T* in [[buffer(2)]], constant SelectParams& p [[buffer(3)]],
                         MPSX_GROUP_PARAMETERS) {
  typedef sort_key_t<T> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint counts[kCounters];
  threadgroup uint scratch[kScratch];
  threadgroup ulong spans[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  values += ulong(g.group.x) * p.count;
  places += ulong(g.group.x) * p.count;
#if !MPSX_VECTOR_BYTES
  if (sizeof(K) > 4 && p.count <= kFew) return few_wide(values, places, x, n, p.count, p.order);
  if (p.count <= kFew) {
    if (p.count <= 8) return few_first<8>(values, places, x, n, p.count, p.order);
    return few_first<kFew>(values, places, x, n, p.count, p.order);
  }
#endif
  if (n <= kRanked) {
    for (uint i = g.index; i < n; i += g.count) {
      const uint rank = rank_of(x, i, n, p.order);
      if (rank >= p.count) continue;
      values[rank] = x[i];
      places[rank] = long(i);
    }
    return;
  }
  const Threshold<K> found = find_rank(x, n, p.count - 1, p.order, true, counts, scratch, spans, g);
  const Part part = part_of(n, g);
  uint less = 0, equal = 0;
  if (g.count > 1) {
    for (uint i = part.begin; i < part.end; ++i) {
      const K key = found.of(key_in_order(x[i], p.order));
      less += key < found.prefix ? 1u : 0u;
      equal += key == found.prefix ? 1u : 0u;
    }
  }
  uint all;
  less = tg_prefix_sum(less, all, scratch, g);
  equal = tg_prefix_sum(equal, all, scratch, g);
  const uint room = p.count - found.before;
  uint to = less + min(equal, room);
  for (uint i = part.begin; i < part.end; ++i) {
    const K key = found.of(key_in_order(x[i], p.order));
    if (key > found.prefix || (key == found.prefix && equal >= room)) continue;
    if (key == found.prefix) ++equal;
    values[to] = x[i];
    places[to] = long(i);
    ++to;
  }
}

// kthvalue, median, nanmedian: one element a row; of its equals the one that a stable sort would put there.
template <typename T>
kernel void select_one(device T* values [[buffer(0)]], device long* places [[buffer(1)]],
                       device const T* in [[buffer(2)]], constant SelectParams& p [[buffer(3)]],
                       MPSX_GROUP_PARAMETERS) {
  typedef sort_key_t<T> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint counts[kCounters];
  threadgroup uint scratch[kScratch];
  threadgroup ulong spans[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  uint rank = p.rank;
  if (p.which != kKth) {
    uint valid = 0;
    MPSX_REDUCE(+ : valid)
    for (uint i = g.index; i < n; i += g.count) valid += x[i] == x[i] ? 1u : 0u;
    valid = tg_sum(valid, scratch, g);
    // A NaN, which is the largest, is the median of a row that has one; nanmedian passes over them.
    rank = valid == n ? (n - 1) / 2 : p.which == kMedian || valid == 0 ? valid : (valid - 1) / 2;
  }
  if (n <= kRanked) {
    for (uint i = g.index; i < n; i += g.count) {
      if (rank_of(x, i, n, p.order) != rank) continue;
      values[g.group.x] = x[i];
      places[g.group.x] = long(i);
    }
    return;
  }
#if !MPSX_VECTOR_BYTES
  if (n <= kShortRow) {
    const uint place = place_in_short_row(x, n, rank);
    values[g.group.x] = x[place];
    places[g.group.x] = long(place);
    return;
  }
#endif
  const Threshold<K> found = find_rank(x, n, rank, p.order, false, counts, scratch, spans, g);
  const Part part = part_of(n, g);
  uint equal = 0, all;
  if (g.count > 1)
    for (uint i = part.begin; i < part.end; ++i) equal += found.of(key_in_order(x[i], p.order)) == found.prefix ? 1u : 0u;
  equal = tg_prefix_sum(equal, all, scratch, g);
  const uint wanted = rank - found.before;
  for (uint i = part.begin; i < part.end; ++i) {
    if (found.of(key_in_order(x[i], p.order)) != found.prefix) continue;
    if (equal == wanted) {
      values[g.group.x] = x[i];
      places[g.group.x] = long(i);
    }
    ++equal;
  }
}

#define MPSX_SELECT(T, TAG, ...)                                \
  MPSX_KERNEL("select_first_" #TAG, select_first<T>)            \
  MPSX_KERNEL("select_one_" #TAG, select_one<T>)
MPSX_FOR_REAL(MPSX_SELECT)
