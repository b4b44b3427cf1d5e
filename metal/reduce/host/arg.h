// Extrema of rows and their places where a threadgroup is one thread: compilers vectorize a loop over keys and one over
// places, but none over both.
#pragma once

template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_of_run(device const T* x, uint, uint n, Team) {
  typedef compute_t<T> C;
  enum : uint { kBlock = 8192 };
  Indexed<K, uint> best = {least_key<K>::value(), UINT_MAX};
  for (ulong first = 0; first < n; first += kBlock) {
    device const T* block = x + first;
    const uint size = uint(smaller(kBlock, n - first));
    K key = least_key<K>::value();
    MPSX_REDUCE(max : key)
    for (uint i = 0; i < size; ++i) {
      const K k = arg_key<Key>(C(block[i]));
      key = key < k ? k : key;
    }
    if (key <= best.key && first > 0) continue;
    uint place = UINT_MAX;
    MPSX_REDUCE(min : place)
    for (uint i = 0; i < size; ++i) {
      const uint candidate = arg_key<Key>(C(block[i])) == key ? i : UINT_MAX;
      place = candidate < place ? candidate : place;
    }
    best = Indexed<K, uint>{key, uint(first) + place};
  }
  return best;
}
template <typename Key, typename T, typename K>
inline uint find_in_run(device const T*, uint, Indexed<K, uint> best, uint) { return best.index; }
