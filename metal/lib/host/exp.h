// Returns exp(x) for x <= 0. Below -87, returns 0 to avoid subnormal results. Uses the polynomial of metal_stdlib's
// exp.
inline float exp_nonpositive(float x) {
  const float bounded = -87.0f > x ? -87.0f : x;  // NaN is not clamped
  const float shifted = fma(bounded, 1.44269504088896341f, 12582912.0f), k = shifted - 12582912.0f;
  const float r = fma(k, 1.90465421e-9f, fma(k, -0.693147182f, bounded));
  float p = 0.0013813142431899905f;
  p = fma(p, r, 0.008369418792426586f);
  p = fma(p, r, 0.04166845604777336f);
  p = fma(p, r, 0.16666515171527863f);
  p = fma(p, r, 0.4999999403953552f);
  const float power = as_type<float>((as_type<uint>(shifted) << 23) + 0x3f800000u);  // 2^k
  return fma(fma(p, r, 1.0f), r, 1.0f) * (-87.0f > x ? 0.0f : power);
}
template <typename O> inline float exp_nonpositive_as(float x) { return exp_nonpositive(x); }
