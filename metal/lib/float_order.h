// Maps floats to integers that compare in the same order.
#pragma once

#include "lib/arithmetic.h"

// `ordered_max` and `ordered_min` map NaN to the largest integer, and `ordered_min` reverses the order. As a result,
// the maximum of the integers yields the maximum or minimum of the floats and propagates NaN.
inline int float_order(float x) {
  const int bits = as_type<int>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float float_of_order(int key) { return as_type<float>(key ^ ((key >> 31) & 0x7fffffff)); }
inline int ordered_max(float x) { return is_nan(x) ? INT_MAX : float_order(x); }
inline int ordered_min(float x) { return is_nan(x) ? INT_MAX : ~float_order(x); }
inline float value_of_max(int key) { return float_of_order(key); }
inline float value_of_min(int key) { return key == INT_MAX ? NAN : float_of_order(~key); }
