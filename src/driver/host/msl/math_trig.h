// Trigonometric and hyperbolic functions of float, without branches. Polynomials: Cephes (sinf.c, tanf.c, asinf.c,
// atanf.c, sinhf.c, tanhf.c).
#pragma once

namespace metal {
struct mpsx_angle { float r; int quadrant; };
// x - quadrant * pi/2, with pi/2 in three parts; good to one ulp for |x| up to 1e5.
MPSX_FN mpsx_angle mpsx_reduce_small(float x) {
  const float n = rint(x * M_2_PI_F);
  const float r = fma(n, 0x1.ee59dap-50f, fma(n, 0x1.777a5cp-25f, fma(n, -0x1.921fb6p+0f, x)));
  const float safe = fabs(n) < 0x1p30f ? n : 0.0f;
  return {r, int(safe)};
}
MPSX_FN mpsx_angle mpsx_reduce(float x) { return mpsx_reduce_small(x); }
MPSX_FN float mpsx_sin_reduced(float r) {
  const float z = r * r;
  const float p = fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
  return fma(p * z, r, r);
}
MPSX_FN float mpsx_cos_reduced(float r) {
  const float z = r * r;
  const float p = fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  return fma(p * z, z, fma(-0.5f, z, 1.0f));
}
MPSX_FN float mpsx_sin_quadrant(mpsx_angle a, int shift) {
  const int q = a.quadrant + shift;
  const float y = (q & 1) ? mpsx_cos_reduced(a.r) : mpsx_sin_reduced(a.r);
  return (q & 2) ? -y : y;
}
MPSX_FN float mpsx_tan_angle(mpsx_angle a) {
  const float z = a.r * a.r;
  float p = 9.38540185543e-3f;
  p = fma(p, z, 3.11992232697e-3f);
  p = fma(p, z, 2.44301354525e-2f);
  p = fma(p, z, 5.34112807005e-2f);
  p = fma(p, z, 1.33387994085e-1f);
  p = fma(p, z, 3.33331568548e-1f);
  const float y = fma(p * z, a.r, a.r);
  return (a.quadrant & 1) ? -1.0f / y : y;
}
MPSX_FN float sin(float x) {
  const float y = mpsx_sin_quadrant(mpsx_reduce(x), 0);
  return x == 0.0f ? x : isfinite(x) ? y : NAN;
}
MPSX_FN float cos(float x) {
  const float y = mpsx_sin_quadrant(mpsx_reduce(x), 1);
  return isfinite(x) ? y : NAN;
}
MPSX_FN float tan(float x) {
  const float y = mpsx_tan_angle(mpsx_reduce(x));
  return x == 0.0f ? x : isfinite(x) ? y : NAN;
}
MPSX_FN float sincos(float x, float& cosine) {
  cosine = cos(x);
  return sin(x);
}
// pi times x: the argument is reduced without error.
MPSX_FN mpsx_angle mpsx_reduce_pi(float x) {
  const float n = rint(2.0f * fmod(x, 2.0f));
  return {fma(n, -0.5f, fmod(x, 2.0f)) * M_PI_F, int(n)};
}
MPSX_FN float sinpi(float x) { return isfinite(x) ? mpsx_sin_quadrant(mpsx_reduce_pi(x), 0) : NAN; }
MPSX_FN float cospi(float x) { return isfinite(x) ? mpsx_sin_quadrant(mpsx_reduce_pi(x), 1) : NAN; }
MPSX_FN float tanpi(float x) { return isfinite(x) ? mpsx_tan_angle(mpsx_reduce_pi(x)) : NAN; }

// asin(x) for 0 <= x <= 1/2.
MPSX_FN float mpsx_asin_small(float x) {
  const float z = x * x;
  float p = 4.2163199048e-2f;
  p = fma(p, z, 2.4181311049e-2f);
  p = fma(p, z, 4.5470025998e-2f);
  p = fma(p, z, 7.4953002686e-2f);
  p = fma(p, z, 1.6666752422e-1f);
  return fma(p * z, x, x);
}
MPSX_FN float asin(float x) {
  const float a = fabs(x);
  const bool large = a > 0.5f;
  const float y = mpsx_asin_small(large ? sqrt(0.5f * (1.0f - a)) : a);
  return copysign(large ? fma(-2.0f, y, M_PI_2_F) : y, x);
}
MPSX_FN float acos(float x) {
  const float a = fabs(x);
  const bool large = a > 0.5f;
  const float y = mpsx_asin_small(large ? sqrt(0.5f * (1.0f - a)) : a);
  const float near_one = x < 0.0f ? fma(-2.0f, y, M_PI_F) : 2.0f * y;
  return large ? near_one : M_PI_2_F - (copysign(y, x) + 0x1.777a5cp-25f);
}
MPSX_FN float atan(float x) {
  const float a = fabs(x);
  const bool steep = a > 2.414213562373095f, middle = a > 0.4142135623730950f;
  const float t = steep ? -1.0f / a : middle ? (a - 1.0f) / (a + 1.0f) : a;
  const float base = steep ? M_PI_2_F : middle ? M_PI_4_F : 0.0f;
  const float z = t * t;
  float p = 8.05374449538e-2f;
  p = fma(p, z, -1.38776856032e-1f);
  p = fma(p, z, 1.99777106478e-1f);
  p = fma(p, z, -3.33329491539e-1f);
  return copysign(base + fma(p * z, t, t), x);
}
MPSX_FN float atan2(float y, float x) {
  const float a = fabs(x), b = fabs(y);
  const bool steep = b > a;
  const float small = steep ? a : b, large = steep ? b : a;
  const float t = isinf(small) ? 1.0f : large == 0.0f ? 0.0f : small / large;
  float r = atan(t);
  r = steep ? M_PI_2_F - r : r;
  r = signbit(x) ? M_PI_F - r : r;
  return isnan(x) || isnan(y) ? x + y : copysign(r, y);
}

MPSX_FN float sinh(float x) {
  const float a = fabs(x), z = x * x;
  const float e = mpsx_exp_shifted(a, -1);  // e^a / 2 does not overflow where sinh does not
  float p = 2.03721912945e-4f;
  p = fma(p, z, 8.33028376239e-3f);
  p = fma(p, z, 1.66667160211e-1f);
  return a > 1.0f ? copysign(e - 0.25f / e, x) : fma(p * z, x, x);
}
MPSX_FN float cosh(float x) {
  const float e = mpsx_exp_shifted(fabs(x), -1);
  return e + 0.25f / e;
}
MPSX_FN float tanh(float x) {
  const float a = fmin(fabs(x), 10.0f), z = a * a;
  float p = -5.70498872745e-3f;
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const float y = a > 0.625f ? 1.0f - 2.0f / (exp(a + a) + 1.0f) : fma(p * z, a, a);
  return isnan(x) ? x : copysign(y, x);
}
MPSX_FN float asinh(float x) {
  const float a = fabs(x);
  const float y = a > 0x1p40f ? log(a) + M_LN2_F : mpsx_log1p(a + a * (a / (1.0f + sqrt(fma(a, a, 1.0f)))));
  return copysign(y, x);
}
MPSX_FN float acosh(float x) {
  const float t = x - 1.0f;
  return x < 1.0f ? NAN : x > 0x1p40f ? log(x) + M_LN2_F : mpsx_log1p(t + sqrt(fma(t, t, 2.0f * t)));
}
MPSX_FN float atanh(float x) {
  const float a = fabs(x);
  return copysign(0.5f * mpsx_log1p(2.0f * a / (1.0f - a)), x);
}
}  // namespace metal
