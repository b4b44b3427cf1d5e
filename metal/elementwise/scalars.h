// The scalar arguments of an elementwise operator, converted to the compute type.
#pragma once

#include "elementwise/params.h"
#include "lib/compute.h"

template <typename C>
struct Scalars {
  C a, b, c;  // c: value of an inlined operand
};
template <typename C>
inline Scalars<C> scalars(constant ScalarParams& s) {
  return {C(s.i[0]), C(s.i[1]), C(s.i[3])};
}
template <>
inline Scalars<float> scalars<float>(constant ScalarParams& s) {
  return {s.f[0], s.f[1], s.f[3]};
}

// Clamps x to two scalar bounds. A NaN in x is preserved, and a NaN bound makes every result NaN.
template <typename C>
inline C between(C x, C low, C high) {
  const C raised = x < low ? low : x, y = raised > high ? high : raised;
  return low != low || high != high ? C(low + high) : y;
}
