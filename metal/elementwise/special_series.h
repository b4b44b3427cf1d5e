// Polynomials and Chebyshev series for the special functions.
#pragma once

#include "lib/arithmetic.h"
#include "lib/math.h"

// Evaluates c[0] x^(n-1) + ... + c[n-1] by Horner's rule.
inline float polynomial(float x, constant float* c, uint n) {
  float sum = c[0];
  for (uint i = 1; i < n; ++i) sum = fma(sum, x, c[i]);
  return sum;
}
// Evaluates a polynomial that also has the leading term x^n.
inline float monic(float x, constant float* c, uint n) {
  float sum = x + c[0];
  for (uint i = 1; i < n; ++i) sum = fma(sum, x, c[i]);
  return sum;
}
// Evaluates a Chebyshev series in T_i(x / 2) by Clenshaw's recurrence. The coefficient of T_0 comes last.
inline float chebyshev(float x, constant float* c, uint n) {
  float b0 = c[0], b1 = 0.0f, b2 = 0.0f;
  for (uint i = 1; i < n; ++i) {
    b2 = b1;
    b1 = b0;
    b0 = fma(x, b1, c[i] - b2);
  }
  return 0.5f * (b0 - b2);
}
// Returns sin(pi x). The argument reduction is exact.
inline float sin_pi(float x) { return precise::sinpi(x); }
