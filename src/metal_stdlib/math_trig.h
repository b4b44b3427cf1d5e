// Trigonometric and hyperbolic functions for float, with no branches in code that is vectorized. The polynomials are
// from Cephes (sinf.c, tanf.c, asinf.c, atanf.c, sinhf.c, tanhf.c).
#pragma once

namespace metal {
struct mpsx_angle {
  float r, low;  // the angle is the sum r + low
  int quadrant;
};
// Returns x - quadrant * pi/2, where pi/2 is split into three constants. Accurate to one ulp for |x| up to 1e5.
MPSX_FN mpsx_angle mpsx_reduce_small(float x) {
  const float n = rint(x * M_2_PI_F);
  const float near = fma(n, -0x1.921fb6p+0f, x), more = n * 0x1.777a5cp-25f, r = near + more, part = r - near;
  const float lost = (near - (r - part)) + (more - part);  // rounding error of the sum, added to `low`
  const float low = lost + fma(n, 0x1.777a5cp-25f, -more) + n * 0x1.ee59dap-50f;
  const float safe = fabs(n) < 0x1p30f ? n : 0.0f;
  return {r, low, int(safe)};
}
MPSX_FN float mpsx_sin_reduced(float r, float low) {
  const float z = r * r;
  const float p = fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
  return r + fma(p * z, r, low);
}
MPSX_FN float mpsx_cos_reduced(float r, float low) {
  const float z = r * r, half = 0.5f * z, first = 1.0f - half;
  const float rest = (1.0f - first) - half - fma(r, low, 0.5f * fma(r, r, -z));
  const float p = fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  return first + fma(p * z, z, rest);
}
MPSX_FN float mpsx_sin_quadrant(mpsx_angle a, int shift) {
  const int q = a.quadrant + shift;
  const float y = (q & 1) ? mpsx_cos_reduced(a.r, a.low) : mpsx_sin_reduced(a.r, a.low);
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
  const float y = a.r + fma(p * z, a.r, a.low);
  return (a.quadrant & 1) ? -1.0f / y : y;
}
// An angle in quarter turns: the nearest integer, whose last bits alone are valid, and the remainder.
struct mpsx_quarters {
  double rest;
  uint64_t whole;
};
// Payne-Hanek reduction of any x. It skips the leading digits of 2/pi, because their products with x are whole turns.
MPSX_FN mpsx_quarters mpsx_reduce(float x) {
  constexpr double round = 0x1.8p52;  // adding this rounds to an integer and leaves it in the low bits
  const double y = double(x);
  const int64_t size = int64_t(as_type<uint64_t>(y) & ~(1ull << 63));
  const bool a = size >= as_type<int64_t>(0x1p51), b = size >= as_type<int64_t>(0x1p77),
             c = size >= as_type<int64_t>(0x1p103);
  const double digits = b ? (c ? 0x1.abe8fa9a6ee06p-79 : 0x1.4a7f09d5f47d4p-54)
                          : (a ? 0x1.727220a94fe13p-27 : 0x1.45f306dc9c882p-1);
  const double more = b ? (c ? 0x1.b6295993c439p-132 : 0x1.a6ee06db14acdp-107)
                        : (a ? 0x1.57d1f534ddc0ep-80 : 0x1.4a7f09d5f47d5p-54);
  const double product = y * digits, whole = product + round, part = product - (whole - round);
  const double less = mpsx_take_off(mpsx_product_excess(product, y, digits), y, more);
  const double nearest = (part - less) + round;
  return {(part - (nearest - round)) - less, as_type<uint64_t>(whole) + as_type<uint64_t>(nearest)};
}
// Minimax polynomials in double, with relative errors below 2^-28.
MPSX_FN float mpsx_sin_quarters(mpsx_quarters angle, uint64_t shift) {
  const double z = angle.rest * angle.rest;
  double s = mpsx_take_off(0x1.465e845ca082dp-4, z, 0x1.2d9053235f8fap-8);
  s = mpsx_take_off(0x1.921fb52e3cc8p+0, z, mpsx_take_off(0x1.4abbb8df20df2p-1, z, s)) * angle.rest;
  double c = mpsx_take_off(0x1.55c4da44ef1fap-6, z, 0x1.d99b02d5408cbp-11);
  c = mpsx_take_off(0x1.3bd3cc6e1d38cp+0, z, mpsx_take_off(0x1.03c1da8ab3cb7p-2, z, c));
  c = mpsx_take_off(0x1.ffffffff836fdp-1, z, c);
  const uint64_t quarter = angle.whole + shift;
  const double y = (quarter & 1u) ? c : s;
  return float((quarter & 2u) ? -y : y);
}
#ifdef MPSX_CUDA  // branch to avoid double arithmetic, which is slow on GPUs
MPSX_FN bool mpsx_branch_small(float x) { return fabs(x) < 0x1p16f; }
#else
MPSX_FN bool mpsx_branch_small(float) { return false; }
#endif
MPSX_FN float sin(float x) {
  if (mpsx_branch_small(x)) return x == 0.0f ? x : mpsx_sin_quadrant(mpsx_reduce_small(x), 0);
  return mpsx_sin_quarters(mpsx_reduce(x), 0);
}
MPSX_FN float cos(float x) {
  if (mpsx_branch_small(x)) return mpsx_sin_quadrant(mpsx_reduce_small(x), 1);
  return mpsx_sin_quarters(mpsx_reduce(x), 1);
}
MPSX_FN float tan(float x) {
  if (mpsx_branch_small(x)) return x == 0.0f ? x : mpsx_tan_angle(mpsx_reduce_small(x));
  const mpsx_quarters q = mpsx_reduce(x);
  const double angle = q.rest * 0x1.921fb54442d18p+0;
  const float r = float(angle), y = mpsx_tan_angle({r, float(angle - double(r)), int(q.whole & 3u)});
  return x == 0.0f ? x : y;
}
// Metal specifies the fast functions only for |x| <= pi. These are accurate for |x| up to 1e5 and skip the argument
// reduction in double.
namespace fast {
MPSX_FN float sin(float x) { return mpsx_sin_quadrant(mpsx_reduce_small(x), 0); }
MPSX_FN float cos(float x) { return mpsx_sin_quadrant(mpsx_reduce_small(x), 1); }
MPSX_FN float tan(float x) { return mpsx_tan_angle(mpsx_reduce_small(x)); }
}  // namespace fast
MPSX_FN float sincos(float x, float& cosine) {
  cosine = cos(x);
  return sin(x);
}
// Functions of pi * x, with exact argument reduction.
MPSX_FN mpsx_angle mpsx_reduce_pi(float x) {
  const float r = fma(-2.0f, rint(x * 0.5f), x), n = rint(2.0f * r), f = fma(n, -0.5f, r);
  const float a = f * M_PI_F;
  return {a, fma(f, M_PI_F, -a) + f * -0x1.777a5cp-24f, int(n)};
}
MPSX_FN float mpsx_finite(float x) { return isfinite(x) ? x : 0.0f; }
MPSX_FN float sinpi(float x) {
  const float y = mpsx_sin_quadrant(mpsx_reduce_pi(mpsx_finite(x)), 0);
  return isfinite(x) ? y : NAN;
}
MPSX_FN float cospi(float x) {
  const float y = mpsx_sin_quadrant(mpsx_reduce_pi(mpsx_finite(x)), 1);
  return isfinite(x) ? y : NAN;
}
MPSX_FN float tanpi(float x) {
  const float y = mpsx_tan_angle(mpsx_reduce_pi(mpsx_finite(x)));
  return isfinite(x) ? y : NAN;
}

// Returns asin(x) - x for 0 <= x <= 1/2. z is the square of x.
MPSX_FN float mpsx_asin_tail(float x, float z) {
  float p = 4.2163199048e-2f;
  p = fma(p, z, 2.4181311049e-2f);
  p = fma(p, z, 4.5470025998e-2f);
  p = fma(p, z, 7.4953002686e-2f);
  p = fma(p, z, 1.6666752422e-1f);
  return p * z * x;
}
// asin(a) for a in [0, 1]. Small a are computed directly, and others as pi/2 - 2 asin(sqrt((1 - a) / 2)), corrected for
// the rounding error of the square root.
struct mpsx_asin_parts {
  float x, tail;
  bool large;
};
MPSX_FN mpsx_asin_parts mpsx_asin_split(float a) {
  const bool large = a > 0.5f;
  const float w = 0.5f * (1.0f - a), root = sqrt(w);
  const float error = root > 0.0f ? fma(-root, root, w) / (2.0f * root) : 0.0f;
  const float x = large ? root : a, z = large ? w : a * a;
  return {x, mpsx_asin_tail(x, z) + (large ? error : 0.0f), large};
}
MPSX_FN float asin(float x) {
  const mpsx_asin_parts s = mpsx_asin_split(fabs(x));
  const float steep = fma(-2.0f, s.x, M_PI_2_F) - fma(2.0f, s.tail, 0x1.777a5cp-25f);
  return copysign(s.large ? steep : s.x + s.tail, x);
}
MPSX_FN float acos(float x) {
  const mpsx_asin_parts s = mpsx_asin_split(fabs(x));
  const float twice = 2.0f * (s.x + s.tail);
  const float steep = x < 0.0f ? fma(-2.0f, s.x, M_PI_F) - fma(2.0f, s.tail, 0x1.777a5cp-24f) : twice;
  return s.large ? steep : M_PI_2_F - (copysign(s.x + s.tail, x) + 0x1.777a5cp-25f);
}
// Returns atan(t) - t for 0 <= t <= 1, using a minimax polynomial in t^2 with a relative error below 2^-26.
MPSX_FN float mpsx_atan_tail(float t) {
  const float z = t * t;
  float p = 0.0029745432548224926f;
  p = fma(p, z, -0.01658099703490734f);
  p = fma(p, z, 0.04355324059724808f);
  p = fma(p, z, -0.07580552995204926f);
  p = fma(p, z, 0.10678929090499878f);
  p = fma(p, z, -0.14214205741882324f);
  p = fma(p, z, 0.19994136691093445f);
  p = fma(p, z, -0.3333316743373871f);
  return p * z * t;
}
MPSX_FN float atan(float x) {
  const float a = fabs(x);
  const bool steep = a > 1.0f;
  const float t = steep ? 1.0f / a : a, tail = mpsx_atan_tail(t);
  const float y = steep ? (M_PI_2_F - t) - (tail + 0x1.777a5cp-25f) : t + tail;
  return copysign(y, x);
}
MPSX_FN float atan2(float y, float x) {
  const float a = fabs(x), b = fabs(y);
  const bool steep = b > a;
  const float small = steep ? a : b, large = steep ? b : a;
  const float t = isinf(small) ? 1.0f : large == 0.0f ? 0.0f : small / large;
  // e corrects for the rounding error of the quotient. It is computed only if the quotient is a normal number.
  const bool exact = small > 0x1p-100f && large < 0x1p100f;
  const float tail = mpsx_atan_tail(t), e = exact ? fma(-t, large, small) / large * (1.0f / fma(t, t, 1.0f)) : 0.0f;
  // With r = t + tail + e, the angle is r or pi/2 - r. In the left half-plane, it is pi minus that.
  const float low = tail + e;
  const float up = (M_PI_2_F - t) - (low + 0x1.777a5cp-25f), left_up = (M_PI_2_F + t) + (low - 0x1.777a5cp-25f);
  const float flat = t + low, left = (M_PI_F - t) - (low + 0x1.777a5cp-24f);
  const float r = signbit(x) ? (steep ? left_up : left) : (steep ? up : flat);
  return isnan(x) || isnan(y) ? x + y : copysign(r, y);
}

MPSX_FN float sinh(float x) {
  const float a = fabs(x), z = x * x;
  const float e = mpsx_exp_shifted(a, -1);  // e^a / 2, which overflows only if sinh does
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
  const float a = mpsx_bound(fabs(x), 0.0f, 10.0f), z = a * a;
  float p = -5.70498872745e-3f;
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const float far = 1.0f - mpsx_fast_divide(2.0f, mpsx_exp_normal(a + a) + 1.0f);
  const float y = a > 0.625f ? far : fma(p * z, a, a);
  return copysign(y, x);
}
MPSX_FN float asinh(float x) {
  const float a = fabs(x);
  const float y = a > 0x1p40f ? log(a) + M_LN2_F : mpsx_log1p(a + a * (a / (1.0f + sqrt(fma(a, a, 1.0f)))));
  return copysign(y, x);
}
MPSX_FN float acosh(float x) {
  const float t = x - 1.0f, w = fma(t, t, 2.0f * t), root = sqrt(w), u = t + root;
  const float error = root > 0.0f ? fma(-root, root, w) / (2.0f * root) : 0.0f;
  const float low = (t > root ? (t - u) + root : (root - u) + t) + error;
  const float y = mpsx_log1p(u) + low / (1.0f + u);
  return x < 1.0f ? NAN : x > 0x1p40f ? log(x) + M_LN2_F : y;
}
MPSX_FN float atanh(float x) {
  const float a = fabs(x);
  const float y = copysign(0.5f * mpsx_log1p(2.0f * a / (1.0f - a)), x);
  return a > 1.0f ? NAN : y;
}
}  // namespace metal
