// The regularized incomplete gamma functions P (lower) and Q = 1 - P (upper).
//
// The equations are numbered as in chapter 8 of the NIST Digital Library of Mathematical Functions (DLMF). Which
// equation is used where follows N. M. Temme, "A set of algorithms for the incomplete gamma functions" (1994), and igam
// in Cephes.
#pragma once

#include "elementwise/special_gamma.h"
#include "lib/log1p.h"

// Returns x^a e^-x / Gamma(a + 1). For a >= 4, uses Stirling's series, in which the large terms are canceled
// analytically.
inline float gamma_density(float a, float x) {
  if (a < 4.0f) {
    const float l = a < 2.5f ? log_gamma_1p(a) : log_gamma_1p(a - 2.0f) + precise::log(a * (a - 1.0f));
    return precise::exp(a * precise::log(x) - x - l);
  }
  const float s = (x - a) / a, z = 1.0f / (a * a);
  const float exponent = s < -0.5f ? precise::log(x / a) - s : log1p_less(s);
  const float rest = (1.0f / 12 - z * (1.0f / 360 - z * (1.0f / 1260))) / a;
  return precise::exp(a * exponent - rest) * precise::rsqrt(2.0f * M_PI_F * a);
}

// Computes P by its power series (DLMF equation 8.11.4).
inline float gamma_p_series(float a, float x) {
  float sum = 1.0f, term = 1.0f;
  for (uint i = 1; i < 500; ++i) {
    term *= x / (a + float(i));
    sum += term;
    if (term <= 3e-8f * sum) break;
  }
  return sum * gamma_density(a, x);
}
// Computes Q by its power series for small x (DLMF equation 8.7.3). expm1 avoids subtracting terms close to 1 from 1.
inline float gamma_q_series(float a, float x) {
  float sum = 0.0f, power = 1.0f;
  for (uint n = 1; n < 100; ++n) {
    power *= -x / float(n);
    const float term = power / (a + float(n));
    sum += term;
    if (fabs(term) <= 3e-8f * fabs(sum)) break;
  }
  const float exponent = a * precise::log(x) - log_gamma_1p(a);
  return -expm1(exponent) - a * precise::exp(exponent) * sum;
}
// Computes Q by its continued fraction (DLMF equation 8.9.2), evaluated with W. J. Lentz's method ("Generating Bessel
// functions in Mie scattering calculations", 1976).
inline float gamma_q_fraction(float a, float x) {
  float b = x + 1.0f - a, c = INFINITY, d = 1.0f / b, fraction = d;
  for (uint i = 1; i < 500; ++i) {
    const float numerator = -float(i) * (float(i) - a);
    b += 2.0f;
    d = 1.0f / (numerator * d + b);
    c = b + numerator / c;
    const float factor = c * d;
    fraction *= factor;
    if (fabs(factor - 1.0f) <= 3e-8f) break;
  }
  return a * gamma_density(a, x) * fraction;
}

// Temme's uniform expansion for large a and x close to a (DLMF equations 8.12.3 and 8.12.4). These are the coefficients
// of C_0, C_1 and C_2 in powers of eta, highest power first.
constant float kTemme0[] = {-2.18544851e-06f, 3.91926318e-05f,  -0.000178755144f, 0.000352733686f,
                            0.00115740741f,   -0.0148148148f, 0.0833333333f,    -0.333333333f};
constant float kTemme1[] = {-4.01877572e-07f, 0.000205761317f, -0.000990226337f,
                            0.0026455026f,    -0.00347222222f, -0.00185185185f};
constant float kTemme2[] = {2.00938786e-06f, 0.00077160494f, -0.00268132716f, 0.00413359788f};

// Returns Q if sign is 1, and P if sign is -1.
inline float gamma_uniform(float a, float x, float sign) {
  const float s = (x - a) / a, half_square = -log1p_less(s);
  const float eta = copysign(precise::sqrt(2.0f * half_square), s);
  const float sum = polynomial(eta, kTemme0, 8) + (polynomial(eta, kTemme1, 6) + polynomial(eta, kTemme2, 4) / a) / a;
  const float rest = precise::exp(-a * half_square) * precise::rsqrt(2.0f * M_PI_F * a) * sum;
  return 0.5f * erfc(sign * eta * precise::sqrt(0.5f * a)) + sign * rest;
}

inline bool near_large(float a, float x) { return a > 20.0f && fabs(x - a) < 0.3f * a; }

// Returns true if an argument is invalid or at an end of its range, and sets *lower to P, which is 0, 1 or NaN.
inline bool at_an_end(float a, float x, thread float* lower) {
  *lower = NAN;
  if (a < 0.0f || x < 0.0f) return true;
  if (a == 0.0f) return *lower = x > 0.0f ? 1.0f : NAN, true;
  if (x == 0.0f) return *lower = 0.0f, true;
  if (isinf(a)) return *lower = isinf(x) ? NAN : 0.0f, true;
  if (isinf(x)) return *lower = 1.0f, true;
  return isnan(a) || isnan(x);
}
inline float gamma_q(float a, float x) {
  float lower;
  if (at_an_end(a, x, &lower)) return 1.0f - lower;
  if (near_large(a, x)) return gamma_uniform(a, x, 1.0f);
  if (x > 1.1f) return x < a ? 1.0f - gamma_p_series(a, x) : gamma_q_fraction(a, x);
  const bool most_is_lower = x <= 0.5f ? a <= -0.4f / precise::log(x) : a <= 1.1f * x;
  return most_is_lower ? gamma_q_series(a, x) : 1.0f - gamma_p_series(a, x);
}
inline float gamma_p(float a, float x) {
  float lower;
  if (at_an_end(a, x, &lower)) return lower;
  if (near_large(a, x)) return gamma_uniform(a, x, -1.0f);
  return x > 1.0f && x > a ? 1.0f - gamma_q(a, x) : gamma_p_series(a, x);
}
