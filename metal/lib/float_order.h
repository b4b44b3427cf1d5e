// Integers that order as floats do.
#pragma once

#include "lib/arithmetic.h"

// `ordered_max` puts NaN above everything; `ordered_min` reverses the order and also puts NaN on top, so an integer
// maximum computes both extrema and propagates NaN.
inline int float_order(float x) {
  const int bits = as_type<int>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float float_of_order(int key) { return as_type<float>(key ^ ((key >> 31) & 0x7fffffff)); }
inline int ordered_max(float x) { return is_nan(x) ? INT_MAX : float_order(x); }
inline int ordered_min(float x) { return is_nan(x) ? INT_MAX : ~float_order(x); }
inline float value_of_max(int key) { return float_of_order(key); }
inline float value_of_min(int key) { return key == INT_MAX ? NAN : float_of_order(~key); }
