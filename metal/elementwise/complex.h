// Complex operands and scalar arguments of elementwise kernels.
#pragma once

#include "elementwise/scalars.h"
#include "lib/complex.h"

// The imaginary parts of scalar arguments are stored in slots that complex operators do not otherwise use (see
// set_scalar in src/ops/elementwise/elementwise.cpp).
template <>
inline Scalars<float2> scalars<float2>(constant ScalarParams& s) {
  return {float2(s.f[0], s.f[1]), float2(0.0f), float2(s.f[3], s.f[2])};
}

// Like operand() in kernels.h, but selects each component separately, because CPU compilers do not vectorize a loop
// that selects pairs.
inline float2 operand(bool inlined, float2 number, float2 loaded) {
  return float2(inlined ? number.x : loaded.x, inlined ? number.y : loaded.y);
}
