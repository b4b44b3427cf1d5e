// Rounding, sign and exponent functions for float. Most of them compile to only a few instructions.
#pragma once

namespace metal {
#if !defined(__FMA__) && defined(__x86_64__)
// fma for processors without an fma instruction. The product is exact in double. The sum is rounded to odd, so that the
// final rounding to float is correct.
MPSX_FN float fma(float a, float b, float c) {
  const double p = double(a) * double(b), d = double(c), s = p + d;
  const double t = s - p, error = (p - (s - t)) + (d - t);
  const uint64_t bits = as_type<uint64_t>(s);
  const bool finite = (bits & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
  const bool away = (error < 0) == ((bits >> 63) == 0);  // the exact sum is closer to zero than s
  const uint64_t odd = ((bits - uint64_t(away)) | 1u);
  return float(as_type<double>(finite && error != 0 ? odd : bits));
}
#else
MPSX_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#endif

MPSX_FN constexpr float fabs(float x) { return __builtin_fabsf(x); }
MPSX_FN constexpr float abs(float x) { return __builtin_fabsf(x); }
MPSX_FN constexpr float copysign(float x, float y) { return __builtin_copysignf(x, y); }
MPSX_FN float sqrt(float x) { return __builtin_sqrtf(x); }
MPSX_FN float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
MPSX_FN constexpr bool isnan(float x) { return (as_type<uint>(x) & 0x7fffffffu) > 0x7f800000u; }
MPSX_FN constexpr bool isinf(float x) { return (as_type<uint>(x) & 0x7fffffffu) == 0x7f800000u; }
MPSX_FN constexpr bool isfinite(float x) { return (as_type<uint>(x) & 0x7fffffffu) < 0x7f800000u; }
MPSX_FN constexpr bool isnormal(float x) {
  return (as_type<uint>(x) & 0x7fffffffu) - 0x00800000u < 0x7f800000u - 0x00800000u;
}
MPSX_FN constexpr bool signbit(float x) { return as_type<uint>(x) >> 31; }

#if defined(__SSE4_1__) || defined(__aarch64__) || !defined(__x86_64__)
MPSX_FN float floor(float x) { return __builtin_floorf(x); }
MPSX_FN float ceil(float x) { return __builtin_ceilf(x); }
MPSX_FN float trunc(float x) { return __builtin_truncf(x); }
MPSX_FN float rint(float x) { return __builtin_rintf(x); }
#else
// Adding 2^23 rounds x to an integer. Larger numbers are already integers.
MPSX_FN float rint(float x) {
  const float magic = copysign(0x1p23f, x), r = copysign((x + magic) - magic, x);
  return fabs(x) < 0x1p23f ? r : x;
}
MPSX_FN float trunc(float x) {
  const float a = fabs(x), r = rint(a), t = r > a ? r - 1.0f : r;
  return copysign(t, x);
}
MPSX_FN float floor(float x) {
  const float r = rint(x);
  return copysign(r > x ? r - 1.0f : r, x);
}
MPSX_FN float ceil(float x) {
  const float r = rint(x);
  return copysign(r < x ? r + 1.0f : r, x);
}
#endif
// Rounds to nearest, with halfway cases away from zero.
MPSX_FN float round(float x) {
  const float t = trunc(x);
  return copysign(fabs(x - t) >= 0.5f ? t + copysign(1.0f, x) : t, x);
}
MPSX_FN float fract(float x) {
  const float f = x - floor(x);
  return isinf(x) ? copysign(0.0f, x) : (f >= 1.0f ? 0x1.fffffep-1f : f);
}
MPSX_FN float modf(float x, float& whole) {
  whole = trunc(x);
  return copysign(isinf(x) ? 0.0f : x - whole, x);
}
// Implements C's fmax, which ignores NaN. clang vectorizes its builtin, even in reductions. gcc vectorizes only the
// comparison.
#if defined(__clang__)
MPSX_FN float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
MPSX_FN float fmin(float a, float b) { return __builtin_fminf(a, b); }
#else
MPSX_FN float fmax(float a, float b) { return (a < b || a != a) ? b : a; }
MPSX_FN float fmin(float a, float b) { return (b < a || a != a) ? b : a; }
#endif
MPSX_FN float fdim(float a, float b) { return a > b ? a - b : (isnan(a) || isnan(b) ? a + b : 0.0f); }
MPSX_FN float fmax3(float a, float b, float c) { return fmax(fmax(a, b), c); }
MPSX_FN float fmin3(float a, float b, float c) { return fmin(fmin(a, b), c); }
MPSX_FN float fmedian3(float a, float b, float c) { return fmax(fmin(a, b), fmin(fmax(a, b), c)); }
MPSX_FN float divide(float a, float b) { return a / b; }
// fast::divide without a branch. Accurate to 2 ulp if b is a normal number below 2^126.
MPSX_FN float mpsx_fast_divide(float a, float b) {
#ifdef MPSX_CUDA
  return __nvvm_div_approx_ftz_f(a, b);
#else
  return a / b;
#endif
}

MPSX_FN float ldexp(float x, int n) {
  n = n < -300 ? -300 : n > 300 ? 300 : n;
  const int a = n / 3;
  const float f = as_type<float>((a + 127) << 23);
  return x * f * f * as_type<float>((n - 2 * a + 127) << 23);
}
MPSX_FN float frexp(float x, int& exponent) {
  const bool small = fabs(x) < __FLT_MIN__, plain = x != 0.0f && isfinite(x);
  const uint bits = as_type<uint>(small ? x * 0x1p24f : x);
  exponent = plain ? int((bits >> 23) & 0xffu) - 126 - (small ? 24 : 0) : 0;
  return plain ? as_type<float>((bits & 0x807fffffu) | 0x3f000000u) : x;
}
MPSX_FN int ilogb(float x) {
  int e;
  frexp(x, e);
  return x == 0.0f ? -__INT_MAX__ - 1 : isfinite(x) ? e - 1 : __INT_MAX__;
}
MPSX_FN float nextafter(float x, float y) {
  if (isnan(x) || isnan(y)) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return copysign(__FLT_DENORM_MIN__, y);
  return as_type<float>(as_type<uint>(x) + ((x < y) == (x > 0.0f) ? 1u : ~0u));
}
// Reduces r >= 0 modulo d. Subtracts multiples of d * 2^SHIFT, then of d * 2^(SHIFT - bits), and so on, and finally of
// d. The multipliers are rounded to nearest, so r may become negative, by up to about half of what was subtracted last.
// All products with d are exact.
#if defined(__FMA__) || !defined(__x86_64__)
constexpr int mpsx_quotient_bits = 47;
MPSX_FN double mpsx_nearest_whole(double n) { return __builtin_rint(n); }
MPSX_FN double mpsx_take_off(double r, double n, double d) { return __builtin_fma(-n, d, r); }
// Returns product - x y, computed exactly. `product` is the rounded product of a float x and a double y.
MPSX_FN double mpsx_product_excess(double product, double x, double y) { return mpsx_take_off(product, x, y); }
#else
constexpr int mpsx_quotient_bits = 28;
MPSX_FN double mpsx_nearest_whole(double n) { return (n + 0x1.8p52) - 0x1.8p52; }
MPSX_FN double mpsx_take_off(double r, double n, double d) { return r - n * d; }
MPSX_FN double mpsx_product_excess(double product, double x, double y) {
  const double high = as_type<double>(as_type<uint64_t>(y) & ~0xffffffull);  // its product with x is exact
  return (product - x * high) - x * (y - high);
}
#endif
template <int SHIFT>
MPSX_FN double mpsx_divide_off(double r, double d, double inverse) {
  constexpr double scale = as_type<double>(uint64_t(1023 + SHIFT) << 52);
  const double rest = mpsx_take_off(r, mpsx_nearest_whole(r * (inverse * (1.0 / scale))), d * scale);
  if constexpr (SHIFT > 0)
    return mpsx_divide_off<SHIFT - mpsx_quotient_bits>(rest, d, inverse);
  else
    return rest;
}
// Exact fmod by long division. The quotient can have up to 277 bits. Each step computes many of them in double, without
// branches.
MPSX_FN float fmod(float x, float y) {
  const double d = double(fabs(y));
  const double rest = mpsx_divide_off<277 / mpsx_quotient_bits * mpsx_quotient_bits>(double(fabs(x)), d, 1.0 / d);
  const float r = copysign(float(rest < 0.0 ? rest + d : rest), x);
  return isinf(y) && isfinite(x) ? x : r;
}
}  // namespace metal
