// Selects elements of rows by rank, without sorting. Determines the key of that rank digit by digit, starting with the
// most significant digit.
#include "lib/instantiate.h"
#include "lib/vec_loop.h"
#include "sort/radix.h"

// The digits of the selected key that are known so far. `prefix` is key - min_key without its last `shift` bits.
// `before` is the number of elements with a smaller prefix.
template <typename K>
struct Threshold {
  K min_key, prefix;
  uint shift, before;
  uint left;  // number of elements with this prefix

  // Returns the prefix of a key. Shifting by the full width of the key would be undefined.
  K of(K key) const { return shift < sizeof(K) * 8 ? K(K(key - min_key) >> shift) : K(0); }
};

// Finds the element of zero-based rank `rank` in a row. Stops as soon as no other element has the same prefix. If
// `stop_at_last`, also stops if the element has the highest rank among the elements with its prefix.
template <typename T>
inline Threshold<sort_key_t<T>> find_rank(device const T* x, uint n, uint rank, uint order, bool stop_at_last,
                                          threadgroup uint* counts, threadgroup uint* scratch,
                                          threadgroup ulong* span_scratch, GroupThread g) {
  typedef sort_key_t<T> K;
  const Span<K> span = span_of(x, n, order, span_scratch, g);
  const uint bits = digit_bits(g);
  const Part part = part_of(n, g);
  Threshold<K> t = {span.min_key, K(0), bits_of(ulong(K(span.max_key - span.min_key))), 0, n};
  while (t.shift > 0 && !(stop_at_last && t.left == rank - t.before + 1) && t.left > 1) {
    const uint step = min(bits, t.shift), digits = 1u << step;
    const uint shift = t.shift - step;
    clear_counts(counts, digits, g);
    for (uint i = part.begin; i < part.end; ++i) {
      const K key = key_in_order(x[i], order);
      const uint matches = t.of(key) == t.prefix ? 1u : 0u;  // adding 0 is cheaper than branching
      counts[(uint(K(key - t.min_key) >> shift) & (digits - 1)) * g.count + g.index] += matches;
    }
    sum_counts(counts, digits, scratch, g);
    uint low = 0, high = digits;  // find the last digit with at most `rank - before` elements below it
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

// Returns how many elements of a short row come before element i.
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

// Stores the topk elements of a short row in order.
template <typename T>
inline bool select_few(device T* values, device long* indices, device const T* x, constant SelectParams& p,
                       GroupThread g) {
  const uint n = p.size;
  if (n > kRanked) return false;
  for (uint i = g.index; i < n; i += g.count) {
    const uint rank = rank_of(x, i, n, p.order);
    if (rank >= p.count) continue;
    values[rank] = x[i];
    indices[rank] = long(i);
  }
  return true;
}

// The elements of a row that topk might select.
template <typename K>
struct Candidates {
  K keys[kCandidates];
  uint indices[kCandidates];
  atomic_uint count;
};

// Returns the smallest key among this thread's elements.
template <uint N, typename T>
inline void first_key(VecLoop<N, false> d, device const T* x, uint order, thread sort_key_t<T>& min_key) {
  for (; d.more(); d.next()) {
    const VecBatch<T, N> v = load_vecs(d, x, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) {
      const sort_key_t<T> key = key_in_order(v.at[i], order);
      min_key = key < min_key ? key : min_key;
    }
  }
}
template <uint N, typename T>
inline void gather_candidates(VecLoop<N, false> d, device const T* x, uint order, sort_key_t<T> bound,
                              threadgroup Candidates<sort_key_t<T>>& to) {
  for (; d.more(); d.next()) {
    const VecBatch<T, N> v = load_vecs(d, x, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) {
      const sort_key_t<T> key = key_in_order(v.at[i], order);
      // Skip vectors past the end of the row, which are copies of the batch's first vector.
      if (key > bound || (i >= N && d.vec_offset(i / N) == d.at)) continue;
      const uint slot = atomic_fetch_add_explicit(&to.count, 1u, memory_order_relaxed);
      if (slot < kCandidates) to.keys[slot] = key, to.indices[slot] = d.position(i);
    }
  }
}

// Returns how many of the `n` candidates come before the given one. Equal candidates are ordered by index.
template <typename K>
inline uint rank_among(threadgroup const K* keys, threadgroup const uint* indices, uint n, K key, uint element_index) {
  uint rank = 0;
  for (uint k = 0; k < n; ++k) rank += keys[k] < key || (keys[k] == key && indices[k] < element_index) ? 1u : 0u;
  return rank;
}

// Finds an upper bound of the selected keys: the p.count-th smallest of the threads' smallest keys. Gathers all
// elements up to this bound. Returns false if there are too many candidates or too few threads.
template <typename T>
inline bool find_candidates(device const T* x, constant SelectParams& p, threadgroup Candidates<sort_key_t<T>>& to,
                            threadgroup sort_key_t<T>* chosen, GroupThread g) {
  typedef sort_key_t<T> K;
  const uint tid = g.index, tpt = min(g.count, uint(kCandidates));
  if (p.count > tpt) return false;
  if (tid < tpt) {
    K min_key = K(~K(0));
    MPSX_GROUP_VEC_LOOPS(T, p.size, first_key, x, p.order, min_key);
    to.keys[tid] = min_key;
    to.indices[tid] = tid;
  }
  if (tid == 0) atomic_store_explicit(&to.count, 0u, memory_order_relaxed);
  tg_barrier();
  if (tid < tpt && rank_among(to.keys, to.indices, tpt, to.keys[tid], tid) == p.count - 1) *chosen = to.keys[tid];
  tg_barrier();
  const K bound = *chosen;
  if (tid < tpt) {
    MPSX_GROUP_VEC_LOOPS(T, p.size, gather_candidates, x, p.order, bound, to);
  }
  tg_barrier();
  return atomic_load_explicit(&to.count, memory_order_relaxed) <= kCandidates;
}

// Stores the first p.count of `n` candidates in order.
template <typename T>
inline void put_in_order(device T* values, device long* indices, device const T* x, constant SelectParams& p,
                         threadgroup const Candidates<sort_key_t<T>>& from, uint n, GroupThread g) {
  for (uint i = g.index; i < n; i += g.count) {
    const sort_key_t<T> key = from.keys[i];
    const uint element_index = from.indices[i];
    const uint rank = rank_among(from.keys, from.indices, n, key, element_index);
    if (rank >= p.count) continue;
    values[rank] = x[element_index];
    indices[rank] = long(element_index);
  }
}

// topk. Stores the elements before the selected one, and then as many elements equal to it as are needed to store
// p.count. A small selection is stored in order, a large one in any order.
template <typename T>
kernel void select_first(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                         device const T* in [[buffer(2)]], constant SelectParams& p [[buffer(3)]],
                         MPSX_GROUP_PARAMETERS) {
  typedef sort_key_t<T> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint counts[kCounters];
  threadgroup uint scratch[kScratch];
  threadgroup ulong spans[kScratch];
  threadgroup Candidates<K> few;
  threadgroup K bound;
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  values += ulong(g.group.x) * p.count;
  indices += ulong(g.group.x) * p.count;
  if (select_few(values, indices, x, p, g)) return;
  if (p.count <= kRanked && find_candidates(x, p, few, &bound, g)) {
    put_in_order(values, indices, x, p, few, atomic_load_explicit(&few.count, memory_order_relaxed), g);
    return;
  }
  const Threshold<K> found = find_rank(x, n, p.count - 1, p.order, true, counts, scratch, spans, g);
  const Part part = part_of(n, g);
  uint less = 0, equal = 0;
  MPSX_REDUCE(+ : less, equal)
  for (uint i = part.begin; i < part.end; ++i) {
    const K key = found.of(key_in_order(x[i], p.order));
    less += key < found.prefix ? 1u : 0u;
    equal += key == found.prefix ? 1u : 0u;
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
    indices[to] = long(i);
    ++to;
  }
  if (p.count > kRanked) return;
  tg_device_barrier();
  for (uint i = g.index; i < p.count; i += g.count) {
    few.indices[i] = uint(indices[i]);
    few.keys[i] = key_in_order(x[few.indices[i]], p.order);
  }
  tg_all_barrier();  // the indices that have been read are overwritten next
  put_in_order(values, indices, x, p, few, p.count, g);
}

// kthvalue, median and nanmedian: selects one element per row. Among equal elements, selects the one that a stable sort
// would put at that rank.
template <typename T>
kernel void select_one(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
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
    // If a row contains NaN, its median is NaN, because NaN sorts last. nanmedian ignores NaN.
    rank = valid == n ? (n - 1) / 2 : p.which == kMedian || valid == 0 ? valid : (valid - 1) / 2;
  }
  if (n <= kRanked) {
    for (uint i = g.index; i < n; i += g.count) {
      if (rank_of(x, i, n, p.order) != rank) continue;
      values[g.group.x] = x[i];
      indices[g.group.x] = long(i);
    }
    return;
  }
  const Threshold<K> found = find_rank(x, n, rank, p.order, false, counts, scratch, spans, g);
  const Part part = part_of(n, g);
  uint equal = 0, all;
  MPSX_REDUCE(+ : equal)
  for (uint i = part.begin; i < part.end; ++i) equal += found.of(key_in_order(x[i], p.order)) == found.prefix ? 1u : 0u;
  equal = tg_prefix_sum(equal, all, scratch, g);
  const uint wanted = rank - found.before;
  for (uint i = part.begin; i < part.end; ++i) {
    if (found.of(key_in_order(x[i], p.order)) != found.prefix) continue;
    if (equal == wanted) {
      values[g.group.x] = x[i];
      indices[g.group.x] = long(i);
    }
    ++equal;
  }
}

#define MPSX_SELECT(T, TAG, ...)                                \
  MPSX_KERNEL("select_first_" #TAG, select_first<T>)            \
  MPSX_KERNEL("select_one_" #TAG, select_one<T>)
MPSX_FOR_REAL(MPSX_SELECT)
