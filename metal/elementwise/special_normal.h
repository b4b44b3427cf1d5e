// The normal distribution and the error function's relatives.
#pragma once

#include "elementwise/special_series.h"

// exp(x^2) erfc(x) (1 + 2 x) for x >= 0, a polynomial in (x - 2) / (x + 2): interpolated in Chebyshev nodes with 40
// digits. The form is M. M. Shepherd and J. G. Laframboise's, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x".
constant float kErfcx[] = {
    -5.88233747e-07f, -1.88227569e-05f, -1.81971715e-05f, 0.000124543418f, 0.000218740676f, -0.000434387898f,
    -0.00146214077f, 0.00126329106f, 0.00872393209f, -0.00803234488f, -0.054220154f, 0.164051127f, -0.166030391f,
    -0.0927638225f, 1.27697838f};

inline float erfcx(float x) {
  const float a = fabs(x);
  const float y = isinf(a) ? 0.0f : polynomial((a - 2.0f) / (a + 2.0f), kErfcx, 15) / (1.0f + 2.0f * a);
  if (!(x < 0.0f)) return isnan(x) ? x : y;
  return x < -26.7f ? INFINITY : 2.0f * precise::exp(x * x) - y;
}

inline float entropy(float x) { return x > 0.0f ? -x * precise::log(x) : (x == 0.0f ? 0.0f : (isnan(x) ? x : -INFINITY)); }

// log of the normal distribution function.
inline float log_normal_cdf(float x) {
  const float t = x * M_SQRT1_2_F;
  return x < -1.0f ? precise::log(erfcx(-t) * 0.5f) - t * t : log1p(-erfc(t) * 0.5f);
}

// The inverse of erf: a rational approximation (G. L. Pavlis, erfinv, 1996) and two steps of Newton's method, of erfc
// where erf is near 1 and has few digits to tell.
inline float erf_inverse(float y) {
  const float a = fabs(y);
  if (!(a < 1.0f)) return a == 1.0f ? copysign(INFINITY, y) : NAN;
  constexpr float kSlope = 1.12837917f;  // of erf in 0
  if (a <= 0.7f) {
    const float z = y * y;
    float x = y * (((-0.140543331f * z + 0.914624893f) * z - 1.645349621f) * z + 0.886226899f) /
              ((((0.012229801f * z - 0.329097515f) * z + 1.442710462f) * z - 2.118377725f) * z + 1.0f);
    for (uint i = 0; i < 2; ++i) x -= (erf(x) - y) / (kSlope * precise::exp(-x * x));
    return x;
  }
  const float rest = 1.0f - a, z = precise::sqrt(-precise::log(rest * 0.5f));
  float x = (((1.641345311f * z + 3.429567803f) * z - 1.624906493f) * z - 1.970840454f) /
            ((1.637067800f * z + 3.543889200f) * z + 1.0f);
  for (uint i = 0; i < 2; ++i) x -= (rest - erfc(x)) / (kSlope * precise::exp(-x * x));
  return copysign(x, y);
}

// S. L. Moshier, Cephes Mathematical Library, ndtri.c.
constant float kNormalMiddleP[] = {
    -59.9633501f, 98.0010754f, -56.6762857f, 13.9312609f, -1.23916584f};
constant float kNormalMiddleQ[] = {
    1.0f, 1.95448858f, 4.67627913f, 86.3602421f, -225.462688f, 200.260212f, -82.0372256f, 15.9056225f,
    -1.18331621f};
constant float kNormalTailP[] = {
    4.05544892f, 31.5251095f, 57.1628192f, 44.0805074f, 14.6849562f, 2.18663307f, -0.140256079f, -0.0350424627f,
    -0.000857456785f};
constant float kNormalTailQ[] = {
    1.0f, 15.7799883f, 45.3907635f, 41.3172038f, 15.0425386f, 2.50464946f, -0.142182923f, -0.0380806408f,
    -0.000933259481f};
constant float kNormalFarP[] = {
    3.23774892f, 6.91522889f, 3.93881025f, 1.33303461f, 0.20148539f, 0.0123716635f, 0.000301581554f,
    2.65806975e-06f, 6.23974539e-09f};
constant float kNormalFarQ[] = {
    1.0f, 6.02427039f, 3.67983564f, 1.37702099f, 0.216236994f, 0.0134204006f, 0.000328014465f, 2.89247865e-06f,
    6.79019408e-09f};

// The inverse of the normal distribution function.
inline float normal_quantile(float y) {
  constexpr float kTail = 0.135335283f;  // exp(-2)
  if (y == 0.0f) return -INFINITY;
  if (y == 1.0f) return INFINITY;
  if (!(y > 0.0f && y < 1.0f)) return NAN;
  const bool upper = y > 1.0f - kTail;
  const float p = upper ? 1.0f - y : y;
  if (p > kTail) {
    const float d = p - 0.5f, z = d * d;
    return 2.50662827f * (d + d * (z * polynomial(z, kNormalMiddleP, 5) / polynomial(z, kNormalMiddleQ, 9)));
  }
  const float x = precise::sqrt(-2.0f * precise::log(p)), z = 1.0f / x;
  const float rest = x < 8.0f ? polynomial(z, kNormalTailP, 9) / polynomial(z, kNormalTailQ, 9)
                              : polynomial(z, kNormalFarP, 9) / polynomial(z, kNormalFarQ, 9);
  const float found = x - precise::log(x) / x - z * rest;
  return upper ? found : -found;
}
