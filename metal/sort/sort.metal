// Stable sorts of rows that also return indices. Short rows are sorted by rank, and longer rows by LSD radix sort.
#include "lib/instantiate.h"
#include "sort/tile.h"

// Stores each element at its rank, which is the number of elements that come before it.
template <typename T>
inline void sort_by_rank(device T* values, device long* indices, device const T* x, uint n, uint order,
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
    indices[rank] = long(i);
  }
}

// Insertion sort of at most kTiny elements in one thread. The elements are `step` apart.
template <typename T>
inline void sort_tiny(device T* values, device long* indices, device const T* x, uint n, ulong step, uint order) {
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
    indices[i * step] = long(at[i]);
  }
}

// Sorts tiny columns of a dense block (outer, size, inner). gid = (column, outer).
template <typename T>
kernel void sort_columns(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                         device const T* in [[buffer(2)]], constant SortParams& p [[buffer(3)]],
                         uint2 gid [[thread_position_in_grid]]) {
  const ulong begin = ulong(gid.y) * p.size * p.inner + gid.x;
  sort_tiny(values + begin, indices + begin, in + begin, p.size, p.inner, p.order);
}

// Sorts rows that fit in threadgroup memory. The buffers `keys` and `order` are for longer rows, which only the host
// driver sorts with this kernel.
template <typename T>
kernel void sort_rows(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                      device sort_key_t<T>* keys [[buffer(2)]], device uint* order [[buffer(3)]],
                      device const T* in [[buffer(4)]], constant SortParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup SortTile<T> tile;
  const ulong begin = ulong(g.group.x) * p.size;
  device const T* x = in + begin;
  values += begin;
  indices += begin;
  if (p.size <= kRanked) {
    sort_by_rank(values, indices, x, p.size, p.order, tile.keys, g);
    return;
  }
  SortItems<T> items;
  items.load(x, TileOrder{nullptr, 0}, p.size, g);
  for (uint shift = 0; shift < sizeof(T) * 8; shift += kSortBits) {
    items.sort(tile, {shift, p.order}, p.size, g);
    items.reload(tile, p.size, g);
  }
  for (uint i = g.index; i < p.size; i += g.count) {
    values[i] = tile.values[i];
    indices[i] = long(tile.order[i]);
  }
}

// Longer rows are sorted one digit at a time. Threadgroup (x, y) processes tile x of row y. The first launch for a
// digit counts it in counts[row][digit][tile].
template <typename T>
[[max_total_threads_per_threadgroup(kSortThreads)]]
kernel void sort_count(device uint* counts [[buffer(0)]], device const T* in [[buffer(1)]],
                       constant SortParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup atomic_uint found[kSortDigits];
  for (uint d = g.index; d < kSortDigits; d += g.count) atomic_store_explicit(found + d, 0u, memory_order_relaxed);
  tg_barrier();
  const SortDigit digit = {p.shift, p.order};
  const uint first = g.group.x * kSortTile, last = first + min(uint(kSortTile), p.size - first);
  device const T* x = in + ulong(g.group.y) * p.size;
  for (uint i = first + g.index; i < last; i += g.count)
    atomic_fetch_add_explicit(found + digit.of(x[i]), 1u, memory_order_relaxed);
  tg_barrier();
  for (uint d = g.index; d < kSortDigits; d += g.count)
    counts[(ulong(g.group.y) * kSortDigits + d) * p.tiles + g.group.x] =
        atomic_load_explicit(found + d, memory_order_relaxed);
}

// The last launch for a digit sorts each tile by the digit and moves its runs of equal digits to their final positions.
// `ends` holds the inclusive prefix sums of the counts. The pass for the first digit creates the indices, and the pass
// for the last digit stores them.
template <typename T>
[[max_total_threads_per_threadgroup(kSortThreads)]]
kernel void sort_scatter(device T* values [[buffer(0)]], device uint* order [[buffer(1)]],
                         device long* indices [[buffer(2)]], device const T* in [[buffer(3)]],
                         device const uint* in_order [[buffer(4)]], device const uint* ends [[buffer(5)]],
                         constant SortParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup SortTile<T> tile;
  const ulong row = ulong(g.group.y) * p.size;
  const uint first = g.group.x * kSortTile, n = min(uint(kSortTile), p.size - first);
  const SortDigit digit = {p.shift, p.order};
  SortItems<T> items;
  items.load(in + row + first, TileOrder{p.shift == 0 ? nullptr : in_order + row + first, first}, n, g);
  items.sort(tile, digit, n, g);
  for (uint i = g.index; i < n; i += g.count) {
    const T value = tile.values[i];
    const uint d = digit.of(value);
    const uint end = ends[(ulong(g.group.y) * kSortDigits + d) * p.tiles + g.group.x];
    const ulong to = row + (end - (tile.starts[d + 1] - i));
    values[to] = value;
    if (p.shift + kSortBits < sizeof(T) * 8)
      order[to] = tile.order[i];
    else
      indices[to] = long(tile.order[i]);
  }
}

#define MPSX_SORT(T, TAG, ...)                          \
  MPSX_KERNEL("sort_rows_" #TAG, sort_rows<T>)          \
  MPSX_KERNEL("sort_columns_" #TAG, sort_columns<T>)    \
  MPSX_KERNEL("sort_count_" #TAG, sort_count<T>)        \
  MPSX_KERNEL("sort_scatter_" #TAG, sort_scatter<T>)
MPSX_FOR_ALL(MPSX_SORT)
