// Exponentials, logarithms and pow for float. They have no branches, so that loops vectorize.
#pragma once

namespace metal {
// Returns exp(r) for |r| <= ln(2)/2. On GPUs, this is one instruction (relative error below 2^-22). Elsewhere, it is a
// minimax polynomial (relative error below 2^-28).
MPSX_FN float mpsx_exp_reduced(float r) {
#ifdef MPSX_CUDA
  return __nvvm_ex2_approx_ftz_f(r * M_LOG2E_F);
#else
  float p = 0.0013813142431899905f;
  p = fma(p, r, 0.008369418792426586f);
  p = fma(p, r, 0.04166845604777336f);
  p = fma(p, r, 0.16666515171527863f);
  p = fma(p, r, 0.4999999403953552f);
  return fma(p * r, r, r) + 1.0f;
#endif
}
// Clamps x to [low, high] but preserves NaN. This takes one instruction per bound, unlike fmin and fmax.
MPSX_FN float mpsx_bound(float x, float low, float high) {
  const float c = low > x ? low : x;
  return high < c ? high : c;
}
// The integer nearest to y, as a float and in the low bits of `bits`, computed without a conversion instruction. y may
// be NaN.
struct mpsx_nearest { float value; uint bits; };
MPSX_FN mpsx_nearest mpsx_round(float y) {
  const float shifted = y + 0x1.8p23f;
  return {shifted - 0x1.8p23f, as_type<uint>(shifted)};
}
// Returns x * 2^(n + shift) for |n + shift| < 252. Applies the power of two in two multiplications, so that overflowing
// and subnormal results are rounded only once. If `vanishes`, returns zero. Letting the result underflow would also
// give zero but would be many times slower, for example in masked softmax rows.
MPSX_FN float mpsx_scale_by(float x, mpsx_nearest n, int shift, bool vanishes) {
  const uint bits = n.bits + uint(shift), first = (bits << 22) & 0xff800000u, second = (bits << 23) - first;
  return x * as_type<float>(first + 0x3f800000u) * as_type<float>(vanishes ? 0u : second + 0x3f800000u);
}
MPSX_FN float mpsx_exp_shifted(float x, int shift) {
  const float c = mpsx_bound(x, -104.0f, 90.0f);
  const mpsx_nearest n = mpsx_round(c * M_LOG2E_F);
  const float r = fma(n.value, 0x1.05c61p-29f, fma(n.value, -0x1.62e43p-1f, c));  // ln(2) is split into two constants
  return mpsx_scale_by(mpsx_exp_reduced(r), n, shift, x < -104.0f);
}
// Returns exp(x) for |x| <= 87, where the result is a normal number.
MPSX_FN float mpsx_exp_normal(float x) {
  const mpsx_nearest n = mpsx_round(x * M_LOG2E_F);
  const float r = fma(n.value, 0x1.05c61p-29f, fma(n.value, -0x1.62e43p-1f, x));
  return mpsx_exp_reduced(r) * as_type<float>((n.bits << 23) + 0x3f800000u);
}
MPSX_FN float exp(float x) { return mpsx_exp_shifted(x, 0); }
MPSX_FN float exp2(float x) {
  const float c = mpsx_bound(x, -151.0f, 129.0f);
  const mpsx_nearest n = mpsx_round(c);
  return mpsx_scale_by(mpsx_exp_reduced((c - n.value) * M_LN2_F), n, 0, x < -150.0f);
}
MPSX_FN float exp10(float x) {
  const float c = mpsx_bound(x, -45.5f, 39.0f);
  const mpsx_nearest n = mpsx_round(c * 3.32192809488736f);
  const float r = fma(n.value, 0x1.ec10cp-27f, fma(n.value, -0x1.344136p-2f, c));
  return mpsx_scale_by(mpsx_exp_reduced(r * M_LN10_F), n, 0, x < -45.2f);
}

struct mpsx_split { float fraction, exponent; };
// Splits x > 0 into (1 + fraction) * 2^exponent, where 1 + fraction is in [sqrt(1/2), sqrt(2)).
MPSX_FN mpsx_split mpsx_log_split(float x) {
  const bool small = x < __FLT_MIN__;
  const uint bits = as_type<uint>(small ? x * 0x1p24f : x) - 0x3f3504f3u;  // subtract the bits of sqrt(1/2)
  const int e = int(bits) >> 23;
  return {as_type<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f, float(small ? e - 24 : e)};
}
// Returns log(1 + f) - f. The coefficients are from Cephes (logf.c).
MPSX_FN float mpsx_log_tail(float f) {
  float p = 7.0376836292e-2f;
  p = fma(p, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  const float z = f * f;
  return fma(z * f, p, -0.5f * z);
}
// Handles the special cases of logarithms: 0, infinity, negative numbers and NaN.
MPSX_FN float mpsx_log_ends(float x, float y) {
  y = x == INFINITY ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  return isnan(x) ? x : y;
}
MPSX_FN float log(float x) {
  const mpsx_split s = mpsx_log_split(x);
  const float low = fma(s.exponent, -2.12194440e-4f, mpsx_log_tail(s.fraction));
  return mpsx_log_ends(x, fma(s.exponent, 0.693359375f, s.fraction + low));
}
// Multiply the leading term and its tail separately by log2(e) - 1 (or by log10(e)), to preserve the digits of the
// tail.
MPSX_FN float log2(float x) {
  const mpsx_split s = mpsx_log_split(x);
  const float tail = mpsx_log_tail(s.fraction);
  const float low = fma(tail, 0.44269504088896340736f, fma(s.fraction, 0.44269504088896340736f, tail));
  return mpsx_log_ends(x, s.exponent + (low + s.fraction));
}
MPSX_FN float log10(float x) {
  const mpsx_split s = mpsx_log_split(x);
  const float tail = mpsx_log_tail(s.fraction);
  const float low = fma(s.exponent, 0x1.3509f8p-18f, tail * M_LOG10E_F);
  const float fraction = fma(s.fraction, M_LOG10E_F, fma(s.fraction, -0x1.5b235ep-27f, low));
  return mpsx_log_ends(x, fma(s.exponent, 0x1.344p-2f, fraction));  // 0x1.344p-2 is the high part of log10(2)
}
// Returns log(1 + x) for x above about -1/2. A first-order term corrects the rounding error of 1 + x.
MPSX_FN float mpsx_log1p(float x) {
  const float u = 1.0f + x, d = u - 1.0f;
  const float error = u > 2.0f ? 1.0f - (u - x) : x - d;
  const float y = log(u) + error / u;
  return isinf(x) || u == 1.0f ? x : y;
}

struct mpsx_pair { float high, low; };
// Returns log2(x) for positive finite x as a pair of floats with an error of about 2^-34. Uses log(m) = 2 atanh(q),
// where q = (m - 1) / (m + 1).
MPSX_FN mpsx_pair mpsx_log2_pair(float x) {
  const mpsx_split s = mpsx_log_split(x);
  const float f = s.fraction, d = f + 2.0f, d_low = f - (d - 2.0f);
  const float q = f / d, q_low = fma(-q, d_low, fma(-q, d, f)) / d;
  const float z = q * q, z_low = fma(q, q, -z) + 2.0f * q * q_low;
  float t = 1.0f / 13.0f;
  t = fma(t, z, 1.0f / 11.0f);
  t = fma(t, z, 1.0f / 9.0f);
  t = fma(t, z, 1.0f / 7.0f);
  t = fma(t, z, 1.0f / 5.0f) * z;
  const float third = 0x1.555556p-2f, third_low = -0x1.555556p-27f;
  const float p = third + t, p_low = ((third - p) + t) + third_low;
  const float r = z * p, r_low = fma(z, p, -r) + fma(z, p_low, z_low * p);
  const float v = q * r, v_low = fma(q, r, -v) + fma(q, r_low, q_low * r);
  const float h = q + v, h_low = ((q - h) + v) + (v_low + q_low);
  const float scale = 0x1.715476p+1f, scale_low = 0x1.4ae0cp-25f;  // 2 log2(e)
  const float l = h * scale, l_low = fma(h, scale, -l) + fma(h, scale_low, h_low * scale);
  const float high = s.exponent + l;
  return {high, ((s.exponent - high) + l) + l_low};
}
MPSX_FN float mpsx_pow_positive(float x, float y) {
  const mpsx_pair l = mpsx_log2_pair(x);
  const float product = y * l.high;
  const float c = mpsx_bound(product, -160.0f, 140.0f);
  const float low = c == product ? fma(y, l.high, -product) + y * l.low : 0.0f;
  const mpsx_nearest n = mpsx_round(c);
  return mpsx_scale_by(mpsx_exp_reduced(((c - n.value) + low) * M_LN2_F), n, 0, product < -151.0f);
}
MPSX_FN float pow(float x, float y) {
  const float a = fabs(x), half_y = y * 0.5f;
  const bool whole = trunc(y) == y, odd = whole && trunc(half_y) != half_y;
  float r = mpsx_pow_positive(a, y);
  r = a == 1.0f ? 1.0f : r;
  r = a == 0.0f || isinf(a) ? ((a == 0.0f) == (y < 0.0f) ? INFINITY : 0.0f) : r;
  r = isinf(y) ? (a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? INFINITY : 0.0f) : r;
  r = odd ? copysign(r, x) : r;
  r = x < 0.0f && !whole && !isinf(x) ? NAN : r;
  r = isnan(x) || isnan(y) ? x + y : r;
  return x == 1.0f || y == 0.0f ? 1.0f : r;
}
MPSX_FN float powr(float x, float y) { return x < 0.0f ? NAN : pow(x, y); }
}  // namespace metal
