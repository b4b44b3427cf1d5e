// The gamma function and related functions.
#pragma once

#include "elementwise/special_series.h"

// lgamma(x) / ((x - 1) (x - 2)) for x in [0.5, 3.5], as a polynomial in (x - 2) / 1.5, interpolated at Chebyshev nodes
// with 40 digits. The two zeros are factored out to keep precision near them.
constant float kLogGamma[] = {
    0.00540648788f, -0.0063398293f, -0.0141658147f, 0.0149613396f, 0.0194899698f, -0.0194949371f, -0.0102344594f,
    0.00764083933f, 0.00941279583f, -0.0104952699f, 0.00943844522f, -0.0154015257f, 0.0254073572f, -0.0418423875f,
    0.0741672627f, -0.150474958f, 0.422784361f};

// Returns lgamma(1 + x) for x in [-0.5, 2.5], without rounding 1 + x.
inline float log_gamma_1p(float x) { return x * (x - 1.0f) * polynomial((x - 1.0f) * (2.0f / 3), kLogGamma, 17); }

// lgamma without branches. Arguments below 10 are shifted into [0.5, 3.5) with the recurrence Gamma(x + 1) = x
// Gamma(x).
inline float log_gamma(float x) {
  const float a = fabs(x);
  const bool below = a < 0.5f, beyond = a >= 10.0f;
  float t = below ? a + 1.0f : a, product = below ? a : 1.0f;
  for (uint i = 0; i < 7; ++i) {
    const bool above = t >= 3.5f;
    t = above ? t - 1.0f : t;
    product = above ? product * t : product;
  }
  const float l = precise::log(beyond ? a : product);
  const float near = (t - 1.0f) * (t - 2.0f) * polynomial((t - 2.0f) * (2.0f / 3), kLogGamma, 17) + (below ? -l : l);
  // The first terms of Stirling's series.
  const float z = 1.0f / (a * a), rest = (1.0f / 12 - z * (1.0f / 360 - z * (1.0f / 1260))) / a;
  const float far = a > 1e8f ? a * (l - 1.0f) : (a - 0.5f) * (l - 1.0f) + (0.418938533f + rest);
  const float y = beyond ? far : near;
  const float reflected = precise::log(M_PI_F / fabs(a * sin_pi(a))) - y;  // Euler's reflection formula
  const float value = x > 0.0f ? y : (a < 1e-8f ? -l : reflected);
  const bool pole = is_infinite(x) || (x <= 0.0f && x == floor(x));
  return is_nan(x) ? x : (pole ? INFINITY : value);
}

constant float kDigamma[] = {1.0f / 12, -691.0f / 32760, 1.0f / 132, -1.0f / 240, 1.0f / 252, -1.0f / 120, 1.0f / 12};

// The digamma function without branches: the asymptotic series for x >= 10, the recurrence below 10, and the reflection
// formula for x <= 0.
inline float digamma(float x) {
  float t = x > 0.0f ? x : 1.0f - x, sum = 0.0f;
  for (uint i = 0; i < 10; ++i) {
    const bool below = t < 10.0f;
    sum -= below ? 1.0f / t : 0.0f;
    t = below ? t + 1.0f : t;
  }
  const float z = 1.0f / (t * t);
  const float y = sum + precise::log(t) - 0.5f / t - (t < 1e17f ? z * polynomial(z, kDigamma, 7) : 0.0f);
  const float r = x - round_to_even(x);
  const float value = x > 0.0f ? y : y - M_PI_F / precise::tan(M_PI_F * r);
  const float pole = x == 0.0f ? copysign(INFINITY, -x) : NAN;
  const bool at_pole = x <= 0.0f && x == trunc(x);
  return x == INFINITY ? x : (at_pole ? pole : value);
}

inline float trigamma(float x) {
  float sign = 1.0f, sum = 0.0f;
  if (x < 0.5f) {
    // Match PyTorch's kernel, which rounds pi x and therefore returns large numbers at the poles.
    const float s = x == floor(x) ? precise::sin(M_PI_F * x) : sin_pi(x);
    sign = -1.0f;
    sum = -(M_PI_F / s) * (M_PI_F / s);
    x = 1.0f - x;
  }
  for (uint i = 0; i < 6; ++i, x += 1.0f) sum += 1.0f / (x * x);
  const float z = 1.0f / (x * x);
  return sign * (sum + (1.0f + 1.0f / (2.0f * x) + z * (1.0f / 6 - z * (1.0f / 30 - z * (1.0f / 42)))) / x);
}

// (2k)! / B_2k for the Euler-Maclaurin formula (S. L. Moshier, Cephes Mathematical Library, zeta.c).
constant float kZeta[] = {
    12.0f, -720.0f, 30240.0f, -1209600.0f, 47900160.0f, -1.89243758e+09f, 7.47242496e+10f, -2.95013073e+12f,
    1.16467828e+14f, -4.59797872e+15f, 1.81521054e+17f, -7.16616526e+18f};

// The Hurwitz zeta function, which is the sum of (q + k)^-x over k >= 0.
inline float hurwitz_zeta(float x, float q) {
  constexpr float kMinTerm = 1e-9f;  // terms smaller than this, relative to the sum, no longer change a float
  if (x == 1.0f) return INFINITY;
  if (!(x > 1.0f)) return NAN;
  if (q <= 0.0f) {
    if (q == floor(q)) return INFINITY;
    if (x != floor(x)) return NAN;
  }
  float sum = precise::pow(q, -x), lost = 0.0f, a = q, b = 0.0f;
  if (is_infinite(sum)) return sum;  // adding corrections to an infinite sum would yield NaN
  for (uint i = 0; i < 9 || a <= 9.0f; ++i) {
    a += 1.0f;
    b = precise::pow(a, -x);
    // Track the rounding error, because for negative q, terms of opposite sign nearly cancel.
    const float next = sum + b;
    if (is_infinite(next)) return next;  // near a pole
    lost += fabs(sum) >= fabs(b) ? (sum - next) + b : (b - next) + sum;
    sum = next;
    if (fabs(b) <= kMinTerm * fabs(sum)) return sum + lost;
  }
  sum += lost + b * a / (x - 1.0f) - 0.5f * b;
  float factor = 1.0f, k = 0.0f;
  const float w = a;
  for (uint i = 0; i < 12; ++i) {
    factor *= x + k;
    b /= w;
    const float term = factor * b / kZeta[i];
    sum += term;
    if (fabs(term) <= kMinTerm * fabs(sum)) return sum;
    k += 1.0f;
    factor *= x + k;
    b /= w;
    k += 1.0f;
  }
  return sum;
}

// The n-th derivative of digamma.
__attribute__((noinline)) inline float polygamma_of(float n, float x) {
  if (n == 0.0f) return digamma(x);
  if (n == 1.0f) return trigamma(x);
  // Multiply by sqrt(n!) twice, because n! may overflow even if its product with a small zeta value does not.
  const float sign = fmod(n, 2.0f) == 0.0f ? -1.0f : 1.0f, root = precise::exp(0.5f * log_gamma(n + 1.0f));
  return sign * root * hurwitz_zeta(n + 1.0f, x) * root;
}
