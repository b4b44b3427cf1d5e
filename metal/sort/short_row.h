// The element of a rank in a row of some hundreds of elements, by one thread.
#pragma once

#include "sort/radix.h"

#if !MPSX_VECTOR_BYTES
enum : uint {
  kShortRow = 2048,
  kComparedRow = 64  // so many are told apart by comparing each with each
};

// Where the element of rank `rank` (from 0) lies, in a stable ascending order of n <= kShortRow elements. Those that
// share a digit with it are taken out, until few are left.
template <typename T>
inline uint place_in_short_row(device const T* x, uint n, uint rank) {
  typedef sort_key_t<T> K;
  enum : uint { kDigits = 1024 };
  K keys[kShortRow], least = K(~K(0)), most = 0;
  ushort places[kShortRow];
  uint counts[kDigits];
  MPSX_VECTORIZE
  for (uint i = 0; i < n; ++i) keys[i] = sort_key<T>::of(x[i]);
  MPSX_REDUCE(min : least)
  for (uint i = 0; i < n; ++i) least = keys[i] < least ? keys[i] : least;
  MPSX_REDUCE(max : most)
  for (uint i = 0; i < n; ++i) most = keys[i] > most ? keys[i] : most;
  MPSX_VECTORIZE
  for (uint i = 0; i < n; ++i) places[i] = ushort(i);
  uint left = n, shift = bits_of(ulong(K(most - least)));
  while (left > kComparedRow && shift > 0) {
    const uint step = min(left < 512 ? 8u : 10u, shift), mask = (1u << step) - 1;
    shift -= step;
    MPSX_VECTORIZE
    for (uint d = 0; d <= mask; ++d) counts[d] = 0;
    for (uint i = 0; i < left; ++i) ++counts[uint(K(keys[i] - least) >> shift) & mask];
    uint digit = 0;
    for (; rank >= counts[digit]; ++digit) rank -= counts[digit];
    uint kept = 0;
    for (uint i = 0; i < left; ++i) {
      const bool same = (uint(K(keys[i] - least) >> shift) & mask) == digit;
      keys[kept] = keys[i];
      places[kept] = places[i];
      kept += same ? 1u : 0u;
    }
    left = kept;
  }
  if (shift == 0) return places[rank];  // all that are left are equal
  for (uint i = 0; i + 1 < left; ++i) {
    uint before = 0;
    MPSX_REDUCE(+ : before)
    for (uint k = 0; k < left; ++k) before += keys[k] < keys[i] || (keys[k] == keys[i] && k < i) ? 1u : 0u;
    if (before == rank) return places[i];
  }
  return places[left - 1];
}
#endif
