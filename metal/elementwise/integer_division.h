// Integer quotients and remainders. The launcher reports division by zero, and the kernel divides by 1 instead.
#pragma once

#include "lib/arithmetic.h"

// Computes a = q b + r, with q rounded toward zero. INT_MIN / -1 overflows, so for b = -1, a is negated instead.
template <typename C>
inline void divide(C a, C b, thread C& q, thread C& r) {
  const bool negated = b == C(-1) && C(-1) < C(0);
  const C d = b == C(0) || negated ? C(1) : b, whole = C(a / d);
  q = negated ? negate(whole) : whole;
  r = C(a % d);
}

template <typename C>
inline C quotient(C a, C b) {
  C q, r;
  divide(a, b, q, r);
  return q;
}
template <typename C>
inline C rest(C a, C b) {
  C q, r;
  divide(a, b, q, r);
  return r;
}
// Floor division, whose remainder has the divisor's sign.
template <typename C>
inline C floor_quotient(C a, C b) {
  C q, r;
  divide(a, b, q, r);
  return r != C(0) && (r < C(0)) != (b < C(0)) ? C(q - C(1)) : q;
}
template <typename C>
inline C floor_remainder(C a, C b) {
  const C r = rest(a, b);
  return r != C(0) && (r < C(0)) != (b < C(0)) ? C(r + b) : r;
}
