// Complex numbers as pairs of floats.
#pragma once

#include "lib/math.h"

inline float2 conjugate(float2 z) { return float2(z.x, -z.y); }
inline float2 times_i(float2 z) { return float2(-z.y, z.x); }
inline float2 over_i(float2 z) { return float2(z.y, -z.x); }
inline float2 complex_product(float2 a, float2 b) { return float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// Scales one component of a divisor. As in PyTorch, if exactly one component of the divisor is infinite, that component
// becomes ±1 and the other one 0. Two infinite components yield NaN.
inline float direction_of(float part, float scale) {
  return isinf(part) && isinf(scale) ? copysign(1.0f, part) : part / scale;
}
// Divides both operands by the larger component of b, because its square could overflow. If a / scale would overflow,
// divides the quotient by the scale instead. If b is 0, divides each component of a by zero.
inline float2 complex_quotient(float2 a, float2 b) {
  const float scale = fmax(fabs(b.x), fabs(b.y));
  const bool two = isinf(b.x) && isinf(b.y);
  const float2 c = a / scale, d = float2(direction_of(b.x, two ? NAN : scale), direction_of(b.y, scale));
  const bool late = isinf(c.x) || isinf(c.y);
  const float2 n = float2(late ? 0.25f * a.x : c.x, late ? 0.25f * a.y : c.y);
  const float square = d.x * d.x + d.y * d.y, rest = late ? scale : 1.0f, back = late ? 4.0f : 1.0f;
  const float2 quotient = float2((n.x * d.x + n.y * d.y) / square, (n.y * d.x - n.x * d.y) / square);
  return b.x == 0.0f && b.y == 0.0f ? c : float2(quotient.x / rest * back, quotient.y / rest * back);
}

inline float modulus(float2 z) {
  const float a = fabs(z.x), b = fabs(z.y), larger = fmax(a, b), smaller = fmin(a, b);
  const float ratio = smaller / larger, length = larger * precise::sqrt(1.0f + ratio * ratio);
  const float usual = larger == 0.0f || isnan(a) || isnan(b) ? a + b : length;
  return isinf(a) || isinf(b) ? INFINITY : usual;
}

// Returns exp(z) / over. A component of exp(z) can be finite even if exp(z.x) overflows, because its sine or cosine
// factor may be as small as the smallest float.
inline float2 complex_exp_over(float2 z, thread float& over) {
  const bool large = z.x > 88.0f;
  const float scale = precise::exp(large ? z.x - 110.0f : z.x);
  over = large ? 7.69478527e23f : 1.0f;  // exp(55); the caller multiplies by `over` twice
  if (z.x == -INFINITY && !isfinite(z.y)) return float2(0.0f);
  if (z.x == INFINITY && !isfinite(z.y)) return float2(INFINITY, NAN);
  if (z.y == 0.0f) return float2(over * scale, z.y);
  return float2(precise::cos(z.y) * over * scale, precise::sin(z.y) * over * scale);
}
inline float2 complex_exp(float2 z) {
  float over;
  const float2 part = complex_exp_over(z, over);
  return part * over;
}
inline float2 complex_expm1(float2 z) {
  if (z.x > 80.0f) return complex_exp(z);
  const float part = expm1(z.x), s = precise::sin(0.5f * z.y), lost = 2.0f * s * s;  // 1 - cos(z.y)
  return float2(part - lost * (part + 1.0f), (part + 1.0f) * precise::sin(z.y));
}
// Returns log(sqrt(x^2 + y^2)). Near a modulus of 1, computes log1p of the difference from 1, because the logarithm of
// the rounded modulus would lose digits. Rescales very large and very small arguments, because their modulus would
// overflow or be subnormal.
inline float log_modulus(float x, float y) {
  const float a = fmax(fabs(x), fabs(y)), b = fmin(fabs(x), fabs(y));
  const bool number = x == x && y == y, large = a > 0x1p126f, small = a < 0x1p-100f;
  if (a > 0.5f && a < 2.0f && number) return 0.5f * log1p(fma(b, b, (a - 1.0f) * (a + 1.0f)));
  const float scale = large ? 0.25f : (small ? 0x1p64f : 1.0f);
  return precise::log(modulus(float2(x, y) * scale)) + (large ? 1.38629436f : (small ? -44.3614197f : 0.0f));
}
inline float2 complex_log(float2 z) { return float2(log_modulus(z.x, z.y), precise::atan2(z.y, z.x)); }
inline float2 complex_log1p(float2 z) {
  const float more = fma(z.y, z.y, z.x * (2.0f + z.x));  // |z|^2 - 1
  const float real = fabs(more) < 0.5f ? 0.5f * log1p(more) : log_modulus(1.0f + z.x, z.y);
  return float2(real, precise::atan2(z.y, 1.0f + z.x));
}

// Returns the rounding error a + b - sum (D. E. Knuth, TAOCP volume 2, 4.2.2).
inline float sum_error(float a, float b, float sum) {
  const float part = sum - a;
  return (a - (sum - part)) + (b - part);
}
// Returns log_modulus as the sum of two floats. Computes |z|^2 = 2^n t, where t is near 1, in extended precision.
inline float2 long_log_modulus(float2 z) {
  const float larger = fmax(fabs(z.x), fabs(z.y)), smaller = fmin(fabs(z.x), fabs(z.y));
  int k = 0;
  const float a = frexp(larger, k), b = ldexp(smaller, -k);
  const float aa = a * a, bb = b * b, square = aa + bb;
  const float rest = sum_error(aa, bb, square) + fma(a, a, -aa) + fma(b, b, -bb);
  const float up = square < 0.35f ? 4.0f : (square < 0.7f ? 2.0f : (square < 1.4f ? 1.0f : 0.5f));
  const int n = 2 * k - (up == 4.0f ? 2 : (up == 2.0f ? 1 : (up == 1.0f ? 0 : -1)));
  const float l = log1p(fma(square, up, -1.0f) + rest * up), whole = float(n) * 0.693145752f;
  const float sum = whole + l;
  return 0.5f * float2(sum, sum_error(whole, l, sum) + float(n) * 1.42860677e-6f);
}
// Returns the angle of z as the sum of two floats. The angle is an offset of at most pi/4 plus a multiple of pi/2. The
// multiple is split into two floats.
inline float2 long_angle(float2 z) {
  const float x = fabs(z.x), y = fabs(z.y), larger = fmax(x, y), smaller = fmin(x, y);
  const float t = smaller / larger, lost = fma(-t, larger, smaller) / larger / fma(t, t, 1.0f), near = precise::atan(t);
  const bool steep = y > x, left = z.x < 0.0f;  // the angle is measured from the nearest axis
  const float quarters = steep ? 1.0f : (left ? 2.0f : 0.0f), sign = steep == left ? 1.0f : -1.0f;
  const float whole = quarters * 1.57079637f, sum = whole + sign * near;
  const float rest = sum_error(whole, sign * near, sum) + sign * lost - quarters * 4.37113883e-8f;
  return copysign(1.0f, z.y) < 0.0f ? float2(-sum, -rest) : float2(sum, rest);
}
inline float2 complex_power(float2 a, float2 b) {
  if (b.x == 0.0f && b.y == 0.0f) return float2(1.0f, 0.0f);
  if (a.x == 0.0f && a.y == 0.0f)
    return b.x > 0.0f ? float2(0.0f) : float2(b.x < 0.0f ? INFINITY : NAN, NAN);
  // Compute exp(b log a). The rounding error of b log a grows with its magnitude, so track it and correct the result.
  const bool ordinary = isfinite(a.x) && isfinite(a.y);
  const float2 modulus = ordinary ? long_log_modulus(a) : float2(log_modulus(a.x, a.y), 0.0f);
  const float2 angle = ordinary ? long_angle(a) : float2(precise::atan2(a.y, a.x), 0.0f);
  const float2 l = float2(modulus.x, angle.x);
  const float xx = b.x * l.x, yy = b.y * l.y, xy = b.x * l.y, yx = b.y * l.x, real = xx - yy, imaginary = xy + yx;
  const float2 rest = complex_product(b, float2(modulus.y, angle.y)) +
                      float2(fma(b.x, l.x, -xx) - fma(b.y, l.y, -yy) + sum_error(xx, -yy, real),
                             fma(b.x, l.y, -xy) + fma(b.y, l.x, -yx) + sum_error(xy, yx, imaginary));
  float over;
  const float2 power = complex_exp_over(float2(real, imaginary), over), full = power + complex_product(power, rest);
  return (isfinite(full.x) && isfinite(full.y) ? full : power) * over;
}

// The functions from here to atanh are based on W. Kahan, "Branch cuts for complex elementary functions, or Much ado
// about nothing's sign bit". At infinities, they comply with Annex G of the C standard.
inline bool is_infinite(float2 z) { return isinf(z.x) || isinf(z.y); }
inline float2 complex_sqrt(float2 z) {
  if (z.x == 0.0f && z.y == 0.0f) return float2(0.0f, z.y);
  if (isinf(z.y)) return float2(INFINITY, z.y);
  const float larger = fmax(fabs(z.x), fabs(z.y));
  const bool large = larger > 0x1p126f, small = larger < 0x1p-100f;
  z *= large ? 0x1p-4f : (small ? 0x1p64f : 1.0f);
  const float half_sum = 0.5f * fabs(z.x) + 0.5f * modulus(z);
  const float root = precise::sqrt(half_sum), other = 0.5f * fabs(z.y) / root;
  const float2 scaled = z.x >= 0.0f ? float2(root, copysign(other, z.y)) : float2(other, copysign(root, z.y));
  return scaled * (large ? 4.0f : (small ? 0x1p-32f : 1.0f));
}
// Above this magnitude, the leading term of asin and related functions is exact in float precision.
inline bool is_far(float2 z) { return fmax(fabs(z.x), fabs(z.y)) > 0x1p30f && !isnan(z.x) && !isnan(z.y); }
inline float log_twice(float2 z) { return log_modulus(z.x, z.y) + M_LN2_F; }
inline float2 complex_acos(float2 z) {
  if (z.x == 0.0f && isnan(z.y)) return float2(0.5f * M_PI_F, NAN);
  if (is_infinite(z)) return float2(precise::atan2(fabs(z.y), z.x), -copysign(INFINITY, z.y));
  if (is_far(z)) return float2(precise::atan2(fabs(z.y), z.x), -copysign(log_twice(z), z.y));
  const float2 below = complex_sqrt(float2(1.0f - z.x, -z.y)), above = complex_sqrt(float2(1.0f + z.x, z.y));
  return float2(2.0f * precise::atan2(below.x, above.x), precise::asinh(complex_product(conjugate(above), below).y));
}
inline float2 complex_asin(float2 z) {
  if (z.x == 0.0f && isnan(z.y)) return z;
  if (is_infinite(z)) return float2(precise::atan2(z.x, fabs(z.y)), copysign(INFINITY, z.y));
  if (is_far(z)) return float2(precise::atan2(z.x, fabs(z.y)), copysign(log_twice(z), z.y));
  const float2 below = complex_sqrt(float2(1.0f - z.x, -z.y)), above = complex_sqrt(float2(1.0f + z.x, z.y));
  return float2(precise::atan2(z.x, complex_product(below, above).x),
                precise::asinh(complex_product(conjugate(below), above).y));
}
inline float2 complex_acosh(float2 z) {
  if (z.x == 0.0f && isnan(z.y)) return float2(NAN, 0.5f * M_PI_F);
  if (is_infinite(z)) return float2(INFINITY, precise::atan2(z.y, z.x));
  if (is_far(z)) return float2(log_twice(z), precise::atan2(z.y, z.x));
  const float2 below = complex_sqrt(float2(z.x - 1.0f, z.y)), above = complex_sqrt(float2(z.x + 1.0f, z.y));
  return float2(precise::asinh(complex_product(conjugate(below), above).x), 2.0f * precise::atan2(below.y, above.x));
}
inline float2 complex_atanh(float2 z) {
  if (is_infinite(z)) return float2(copysign(0.0f, z.x), isnan(z.y) ? z.y : copysign(0.5f * M_PI_F, z.y));
  if (is_far(z)) return float2(complex_quotient(float2(1.0f, 0.0f), z).x, copysign(0.5f * M_PI_F, z.y));
  const float x = fabs(z.x), rest = 1.0f - x, square = z.y * z.y;
  const float real = rest == 0.0f && fabs(z.y) < 1e-10f ? 0.5f * (M_LN2_F - precise::log(fabs(z.y)))
                                                        : 0.25f * log1p(4.0f * x / (rest * rest + square));
  return float2(z.x == 0.0f ? z.x : copysign(real, z.x),
                0.5f * precise::atan2(2.0f * z.y, rest * (1.0f + x) - square));
}

// If x is large or NaN, computes sinh and cosh as exp(|x| + iy) / 2, except for signs. A component may be finite even
// if exp(x) overflows.
inline float2 complex_sinh(float2 z) {
  if (!(fabs(z.x) <= 80.0f)) {
    float over;
    const float2 half_exp = 0.5f * complex_exp_over(float2(fabs(z.x), z.y), over);
    const float sign = isinf(z.x) && !isfinite(z.y) ? 1.0f : copysign(1.0f, z.x);
    return float2(sign * half_exp.x, half_exp.y) * over;
  }
  const float real = z.x == 0.0f ? z.x : precise::sinh(z.x) * precise::cos(z.y);
  return float2(real, precise::cosh(z.x) * precise::sin(z.y));
}
inline float2 complex_cosh(float2 z) {
  if (!(fabs(z.x) <= 80.0f)) {
    float over;
    const float2 half_exp = 0.5f * complex_exp_over(float2(fabs(z.x), z.y), over);
    return float2(half_exp.x, copysign(1.0f, z.x) * half_exp.y) * over;
  }
  const float imaginary = z.x == 0.0f && !isfinite(z.y) ? 0.0f : precise::sinh(z.x) * precise::sin(z.y);
  return float2(precise::cosh(z.x) * precise::cos(z.y), imaginary);
}
// Computes tanh(z) = (sinh(x) cosh(x) + i sin(y) cos(y)) / (sinh(x)^2 + cos(y)^2). For |x| > 10, the real part rounds
// to ±1.
inline float2 complex_tanh(float2 z) {
  if (z.x == 0.0f && !isfinite(z.y)) return float2(z.x, NAN);
  if (isnan(z.x) && z.y == 0.0f) return z;
  const float s = precise::sin(z.y), c = precise::cos(z.y);
  if (isinf(z.x)) return float2(copysign(1.0f, z.x), copysign(0.0f, isfinite(z.y) ? s * c : z.y));
  if (fabs(z.x) > 10.0f && isfinite(z.y))
    return float2(copysign(1.0f, z.x), 4.0f * s * c * precise::exp(-2.0f * fabs(z.x)));
  const float sh = precise::sinh(z.x), ch = precise::cosh(z.x), square = sh * sh + c * c;
  return float2(sh * ch / square, s * c / square);
}

inline float2 complex_sinc(float2 z) {
  const float2 x = z * M_PI_F;
  return z.x == 0.0f && z.y == 0.0f ? float2(1.0f, 0.0f) : complex_quotient(over_i(complex_sinh(times_i(x))), x);
}
// Returns log(exp(a) + exp(b)). Factors out the exponential of the operand with the larger real part.
inline float2 complex_log_add(float2 a, float2 b) {
  const bool swapped = a.x < b.x;
  const float2 larger = swapped ? b : a, smaller = swapped ? a : b;
  if (isnan(smaller.x) || isnan(smaller.y)) return float2(NAN, NAN);
  if (isinf(larger.x) && larger.x == smaller.x) {
    if (larger.x < 0.0f) return smaller;
    return complex_log(complex_exp(smaller) + complex_exp(larger));
  }
  return larger + complex_log1p(complex_exp(smaller - larger));
}

inline float2 complex_sgn(float2 z) {
  const float m = modulus(z);
  return float2(m == 0.0f ? 0.0f : z.x / m, m == 0.0f ? 0.0f : z.y / m);
}
