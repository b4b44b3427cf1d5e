// The running maximum of a window, with its index.
#pragma once

#include "lib/arithmetic.h"

inline float lowest_of(float) { return -INFINITY; }
template <typename T>
inline T lowest_of(T) {
  return T(-1) < T(0) ? T(1ul << (8 * sizeof(T) - 1)) : T(0);
}

// Updates the maximum with v at `position`, without branches. NaN is treated as greater than any number. If there are
// several NaNs, the last one is kept.
template <typename C>
inline void take(thread C& best, thread int& where, C v, int position) {
  const bool taken = (v > best) | is_nan(v);
  best = taken ? v : best;
  where = taken ? position : where;
}
