// The types elementwise operators compute in, and their scalar arguments.
#pragma once

#include "elementwise/params.h"
#include "lib/types.h"

// half and bfloat compute in float, everything else in itself.
template <typename T> struct compute { typedef T type; };
template <> struct compute<half> { typedef float type; };
template <> struct compute<bfloat> { typedef float type; };
template <typename T> using compute_t = typename compute<T>::type;

template <typename C>
struct Scalars {
  C a, b, c;  // c is the value of an inlined operand
};
template <typename C>
inline Scalars<C> scalars(constant ScalarParams& s) {
  return {C(s.i[0]), C(s.i[1]), C(s.i[3])};
}
template <>
inline Scalars<float> scalars<float>(constant ScalarParams& s) {
  return {s.f[0], s.f[1], s.f[3]};
}
