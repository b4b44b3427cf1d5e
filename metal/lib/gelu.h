// GELU, as a kernel of its own and in the epilogues of GEMMs.
#pragma once

#include "lib/types.h"

constant float kSqrt2OverPi = 0.797884560802865f;
constant float kGeluCubic = 0.044715f;  // D. Hendrycks, K. Gimpel, arXiv:1606.08415

// Returns (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), where u is the argument of tanh in gelu. The errors of fast division
// and fast exp are within GELU's tolerance.
inline float gelu_tanh_gate(float x) {
  const float u = kSqrt2OverPi * (x + kGeluCubic * x * x * x);
  return fast::divide(1.0f, 1.0f + fast::exp(-2.0f * u));
}
inline float gelu_tanh(float x) { return x * gelu_tanh_gate(x); }
// Returns 1 + erf(x / sqrt(2)), accurate to the last bits near 1. The rational function is a fit on |x| < 5.5 (error
// below 2^-25). Beyond that, the result rounds to 0 or 2.
inline float twice_normal_cdf(float x) {
  const bool far = fabs(x) > 5.4f;
  const float c = far ? 5.4f : fabs(x), s = c * c;  // clamp, because a branch would stall loads
  float p = 4.58625317e-08f, q = 1.19902964e-06f;
  p = fma(p, s, 1.26031303e-05f), q = fma(q, s, 7.21662455e-05f);
  p = fma(p, s, 0.000329142902f), q = fma(q, s, 0.00186063307f);
  p = fma(p, s, 0.00930293633f), q = fma(q, s, 0.0284160047f);
  p = fma(p, s, 0.0669173536f), q = fma(q, s, 0.250534867f);
  p = fma(p, s, 0.797884548f), q = fma(q, s, 1.0f);
  const float y = fast::divide(c * p, q) + (far ? 1.0f : 0.0f);
  return 1.0f + copysign(y > 1.0f ? 1.0f : y, x);
}
