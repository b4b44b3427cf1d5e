// The scalar arguments of elementwise operators, in the type that they compute in.
#pragma once

#include "elementwise/params.h"
#include "lib/compute.h"

template <typename C>
struct Scalars {
  C a, b, c;  // c is the value of an inlined operand
  C zero;     // 0, which the compiler does not know: see kept
};
template <typename C>
inline Scalars<C> scalars(constant ScalarParams& s) {
  return {C(s.i[0]), C(s.i[1]), C(s.i[3]), C(s.zero)};
}
template <>
inline Scalars<float> scalars<float>(constant ScalarParams& s) {
  return {s.f[0], s.f[1], s.f[3], s.zero};
}

// v or else 0. A load that nothing reads but a selection becomes a load under a mask, which hardware does not prefetch
// well (1.7 times as slow over 20 MB on an AMD Zen 5); this reads v in both cases.
inline float kept(bool keep, float v, float zero) {
  return keep ? v : as_type<float>(as_type<int>(v) & as_type<int>(zero));
}

// x between two scalar arguments. NaN stays NaN; an argument that is NaN makes all of them NaN, outside of the loop.
template <typename C>
inline C between(C x, C low, C high) {
  const C raised = x < low ? low : x, y = raised > high ? high : raised;
  return low != low || high != high ? C(low + high) : y;
}
