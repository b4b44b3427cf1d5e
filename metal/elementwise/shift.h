// Integer shifts.
#pragma once

#include "lib/arithmetic.h"

// Shifting by at least the bit width yields 0, and negative counts are treated as large ones. Values are shifted in two
// steps. LLVM would merge a single shift and its comparison into an NVIDIA instruction that reads only 32 bits of a
// 64-bit count.
template <typename T>
inline T shift_left(T a, T b) {
  const bool inside = b >= T(0) && b < T(8 * sizeof(T));
  const T by = inside ? b : T(0), first = by / T(2);
  return inside ? T((unsigned_of_t<T>(a) << first) << (by - first)) : T(0);
}
template <typename T>
inline T shift_right(T a, T b) {
  constexpr T most = T(8 * sizeof(T) - 1);
  const bool inside = b >= T(0) && b <= most;
  return T(-1) > T(0) && !inside ? T(0) : T(a >> (inside ? b : most));
}
