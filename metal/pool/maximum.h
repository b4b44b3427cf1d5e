// The maximum of a window so far, and where it is.
#pragma once

#include "lib/arithmetic.h"

inline float lowest_of(float) { return -INFINITY; }
template <typename T>
inline T lowest_of(T) {
  return T(-1) < T(0) ? T(1ul << (8 * sizeof(T) - 1)) : T(0);
}

// v, which lies at `position`, against the best so far: NaN wins, the last of several too. Without branches.
template <typename C>
inline void take(thread C& best, thread int& where, C v, int position) {
  const bool taken = (v > best) | is_nan(v);
  best = taken ? v : best;
  where = taken ? position : where;
}
