// The normal distribution and functions related to erf.
#pragma once

#include "elementwise/special_series.h"

// exp(x^2) erfc(x) (1 + 2 x) for x >= 0, as a polynomial in (x - 2) / (x + 2), interpolated at Chebyshev nodes with 40
// digits. This form is from M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc
// x".
constant float kErfcx[] = {
    -5.88233747e-07f, -1.88227569e-05f, -1.81971715e-05f, 0.000124543418f, 0.000218740676f, -0.000434387898f,
    -0.00146214077f, 0.00126329106f, 0.00872393209f, -0.00803234488f, -0.054220154f, 0.164051127f, -0.166030391f,
    -0.0927638225f, 1.27697838f};

inline float erfcx(float x) {
  const float a = fabs(x);
  const float series = polynomial((a - 2.0f) / (a + 2.0f), kErfcx, 15) / (1.0f + 2.0f * a);
  const float y = is_infinite(x) ? 0.0f : series, left = 2.0f * precise::exp(x * x) - y;
  return is_nan(x) ? x : (x < -26.7f ? INFINITY : (x < 0.0f ? left : y));
}

inline float entropy(float x) {
  const float y = -x * precise::log(x);
  return x > 0.0f || is_nan(x) ? y : (x == 0.0f ? 0.0f : -INFINITY);
}

inline float log_normal_cdf(float x) {
  const float t = x * M_SQRT1_2_F;
  const float left = precise::log(erfcx(-t) * 0.5f) - t * t, right = log1p(-erfc(t) * 0.5f);
  return x < -1.0f ? left : right;
}

// The inverse of erf is y times a polynomial in log(1 - y^2), with separate coefficients for |y| <= 0.9989 and for the
// tail. This form is from M. Giles, "Approximating the erfinv function" (2010), and the coefficients are from N. Juffa,
// "erfinvf" (StackOverflow 27229371).
constant float kErfInverseMiddle[] = {
    5.43877832e-9f, 1.43285448e-7f, 1.22774793e-6f, 1.12963626e-7f, -5.61530760e-5f, -1.47697632e-4f,
    2.31468678e-3f, 1.15392581e-2f, -2.32015476e-1f, 8.86226892e-1f};
constant float kErfInverseTail[] = {
    3.03697567e-10f, 2.93243101e-8f, 1.22150334e-6f, 2.84108955e-5f, 3.93552968e-4f, 3.02698812e-3f,
    4.83185798e-3f, -2.64646143e-1f, 8.40016484e-1f};

inline float erf_inverse(float y) {
  const float t = precise::log(fma(y, -y, 1.0f));
  float middle = kErfInverseMiddle[0], tail = kErfInverseTail[0];
  for (uint i = 1; i < 10; ++i) middle = fma(middle, t, kErfInverseMiddle[i]);
  for (uint i = 1; i < 9; ++i) tail = fma(tail, t, kErfInverseTail[i]);
  const float x = y * (t < -6.125f ? tail : middle);
  return fabs(y) == 1.0f ? copysign(INFINITY, y) : x;
}

// Coefficients of the normal quantile, from S. L. Moshier, Cephes Mathematical Library, ndtri.c.
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

// The inverse of the normal CDF. To divide only once, it evaluates the polynomials for both the middle and the tails
// and then selects one pair.
inline float normal_quantile(float y) {
  constexpr float kTail = 0.135335283f;  // exp(-2)
  const bool upper = y > 1.0f - kTail;
  const float p = upper ? 1.0f - y : y;
  const float d = p - 0.5f, square = d * d;
  const float x = precise::sqrt(-2.0f * precise::log(p)), z = 1.0f / x;
  const bool in_middle = p > kTail, near = x < 8.0f;
  const float tail_p = near ? polynomial(z, kNormalTailP, 9) : polynomial(z, kNormalFarP, 9);
  const float tail_q = near ? polynomial(z, kNormalTailQ, 9) : polynomial(z, kNormalFarQ, 9);
  const float ratio = (in_middle ? polynomial(square, kNormalMiddleP, 5) : tail_p) /
                      (in_middle ? polynomial(square, kNormalMiddleQ, 9) : tail_q);
  const float middle = 2.50662827f * (d + d * (square * ratio));
  const float found = x - z * (precise::log(x) + ratio);
  const float inside = in_middle ? middle : (upper ? found : -found);
  return y == 0.0f ? -INFINITY : (y == 1.0f ? INFINITY : (y > 0.0f && y < 1.0f ? inside : NAN));
}
