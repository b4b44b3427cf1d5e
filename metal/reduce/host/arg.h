// Extrema of rows and their indices on the host driver, where a threadgroup is one thread. One loop finds the best key
// and a second loop finds its index. The compiler vectorizes two separate loops, but not a combined one.
#pragma once

template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_contiguous(device const T* x, uint, uint n, RowGroup) {
  typedef compute_t<T> C;
  enum : uint { kBlock = 8192 };
  Indexed<K, uint> best = {lowest_key<K>::value(), UINT_MAX};
  for (ulong first = 0; first < n; first += kBlock) {
    device const T* block = x + first;
    const uint size = uint(min64(kBlock, n - first));
    K key = lowest_key<K>::value();
    MPSX_REDUCE(max : key)
    for (uint i = 0; i < size; ++i) {
      const K k = arg_key<Key>(C(block[i]));
      key = key < k ? k : key;
    }
    if (key <= best.key && first > 0) continue;
    uint index = UINT_MAX;
    MPSX_REDUCE(min : index)
    for (uint i = 0; i < size; ++i) {
      const uint candidate = arg_key<Key>(C(block[i])) == key ? i : UINT_MAX;
      index = candidate < index ? candidate : index;
    }
    best = Indexed<K, uint>{key, uint(first) + index};
  }
  return best;
}
template <typename Key, typename T, typename K>
inline uint find_in_vector(device const T*, uint, Indexed<K, uint> best, uint) { return best.index; }
