// Functions that the Metal standard library lacks, without branches.
#pragma once

#include "lib/exp.h"

// Computes exp(x) - 1 without cancellation, as 2^k (exp(r) - 1) + (2^k - 1) with x = k ln 2 + r and |r| <= ln 2 / 2.
// The remainder of the Taylor polynomial of degree 8 is below 2^-28. ln 2 is split into two constants (Cody and Waite).
inline float expm1(float x) {
  const float k = rint(x * 1.44269504088896341f);
  const float r = fma(k, 2.12194440e-4f, fma(k, -0.693359375f, x));
  float p = 1.0f / 40320.0f;
  p = fma(p, r, 1.0f / 5040.0f);
  p = fma(p, r, 1.0f / 720.0f);
  p = fma(p, r, 1.0f / 120.0f);
  p = fma(p, r, 1.0f / 24.0f);
  p = fma(p, r, 1.0f / 6.0f);
  p = fma(p, r, 0.5f);
  p = fma(p * r, r, r);
  const float scale = as_type<float>(as_type<uint>(k + 12582912.0f + 127.0f) << 23);  // 2^k; 12582912 = 1.5 * 2^23
  const float near = fma(scale, p, scale - 1.0f);
  const float value = x < -20.0f ? -1.0f : (x > 80.0f ? precise::exp(x) : near);
  return x != x ? x : copysign(value, x);
}

// Computes log(1 + x) with W. Kahan's correction: if u is 1 + x rounded, log(u) * x / (u - 1) cancels the rounding
// error of u.
inline float log1p(float x) {
  const float u = 1.0f + x, d = u - 1.0f;
  const float corrected = precise::log(u) * (x / d);
  const float r = d == 0.0f ? x : corrected;
  return x == INFINITY ? x : r;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + precise::exp(-x)); }

// Returns sigmoid(-x). The exponential in it cannot overflow.
inline float falling_sigmoid(float x) {
  const float e = exp_nonpositive(-fabs(x));
  return (x < 0.0f ? 1.0f : e) / (1.0f + e);
}

// Returns erf(x) for |x| <= 0.927734375, computed by an odd polynomial of degree 11.
inline float erf_small(float x) {
  const float s = x * x;
  // Minimax polynomial of erf(x)/x in x^2 on [0, 1], from N. Juffa, "erff" (StackOverflow 35148198). The maximum error
  // is 1 ulp.
  float r = -5.96761703e-4f;
  r = fma(r, s, 4.99119423e-3f);
  r = fma(r, s, -2.67681349e-2f);
  r = fma(r, s, 1.12819925e-1f);
  r = fma(r, s, -3.76125336e-1f);
  r = fma(r, s, 1.28379166e-1f);
  return fma(r, x, x);
}
inline float erf_large(float x) {  // for |x| > 0.927734375; from the same source as erf_small
  const float t = fabs(x), s = x * x;
  float r = fma(-1.72853470e-5f, t, 3.83197126e-4f);
  const float u = fma(-3.88396438e-3f, t, 2.42546219e-2f);
  r = fma(r, s, u);
  r = fma(r, t, -1.06777877e-1f);
  r = fma(r, t, -6.34846687e-1f);
  r = fma(r, t, -1.28717512e-1f);
  r = fma(r, t, -t);
  return copysign(1.0f - exp_nonpositive(r), x);
}
inline float erf(float x) { return fabs(x) > 0.927734375f ? erf_large(x) : erf_small(x); }

// Computes erfc as t exp(p(t) - x^2), where t = 1 / (1 + |x| / 2). The coefficients are the Chebyshev fit from
// Numerical Recipes (W. H. Press et al., erfcc, relative error below 1.2e-7). x^2 is split into two floats, because exp
// would amplify its rounding error.
inline float erfc(float x) {
  const float z = fabs(x), t = 1.0f / fma(0.5f, z, 1.0f);
  float p = 0.17087277f;
  p = fma(p, t, -0.82215223f);
  p = fma(p, t, 1.48851587f);
  p = fma(p, t, -1.13520398f);
  p = fma(p, t, 0.27886807f);
  p = fma(p, t, -0.18628806f);
  p = fma(p, t, 0.09678418f);
  p = fma(p, t, 0.37409196f);
  p = fma(p, t, 1.00002368f);
  p = fma(p, t, -1.26551223f);
  const float square = z * z, rest = fma(z, z, -square);
  const float tail = t * precise::exp(-square) * precise::exp(p - rest);
  const float far = x < 0.0f ? 2.0f - tail : tail;
  const float value = fabs(x) < 0.5f ? 1.0f - erf_small(x) : far;
  return x != x ? x : (z > 27.0f ? (x < 0.0f ? 2.0f : 0.0f) : value);
}
