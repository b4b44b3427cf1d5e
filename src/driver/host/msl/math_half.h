// The float functions for half and bfloat: computed in float, rounded once.
#pragma once

#define MPSX_UNARY_MATH(M)                                                                                  \
  M(acos) M(acosh) M(asin) M(asinh) M(atan) M(atanh) M(ceil) M(cos) M(cosh) M(cospi) M(exp) M(exp10) M(exp2) \
  M(fabs) M(floor) M(fract) M(log) M(log10) M(log2) M(rint) M(round) M(rsqrt) M(saturate) M(sign) M(sin)    \
  M(sinh) M(sinpi) M(sqrt) M(tan) M(tanh) M(tanpi) M(trunc)
#define MPSX_BINARY_MATH(M) \
  M(atan2) M(copysign) M(fdim) M(fmax) M(fmin) M(fmod) M(nextafter) M(pow) M(powr) M(step) M(divide)
#define MPSX_TERNARY_MATH(M) M(fma) M(mix) M(smoothstep) M(fmax3) M(fmin3)
#define MPSX_TEST_MATH(M) M(isfinite) M(isinf) M(isnan) M(isnormal) M(signbit)

namespace metal {
// An integer argument has no best overload in Metal either.
#define MPSX_UNARY(F)                                                      \
  MPSX_FN half F(half x) { return half(F(float(x))); }                     \
  MPSX_FN bfloat F(bfloat x) { return bfloat(F(float(x))); }               \
  template <class I, class = enable_if_t<is_integral_v<I>>>                \
  float F(I) = delete;
#define MPSX_BINARY(F)                                                                         \
  MPSX_FN half F(half x, half y) { return half(F(float(x), float(y))); }                       \
  MPSX_FN bfloat F(bfloat x, bfloat y) { return bfloat(F(float(x), float(y))); }
#define MPSX_TERNARY(F)                                                                                      \
  MPSX_FN half F(half x, half y, half z) { return half(F(float(x), float(y), float(z))); }                   \
  MPSX_FN bfloat F(bfloat x, bfloat y, bfloat z) { return bfloat(F(float(x), float(y), float(z))); }
#define MPSX_TEST(F)                                   \
  MPSX_FN bool F(half x) { return F(float(x)); }       \
  MPSX_FN bool F(bfloat x) { return F(float(x)); }
MPSX_UNARY_MATH(MPSX_UNARY)
MPSX_BINARY_MATH(MPSX_BINARY)
MPSX_TERNARY_MATH(MPSX_TERNARY)
MPSX_TEST_MATH(MPSX_TEST)
MPSX_FN half abs(half x) { return fabs(x); }
MPSX_FN bfloat abs(bfloat x) { return fabs(x); }
MPSX_FN half ldexp(half x, int n) { return half(ldexp(float(x), n)); }
MPSX_FN int ilogb(half x) { return ilogb(float(x)); }
MPSX_FN half frexp(half x, int& exponent) { return half(frexp(float(x), exponent)); }
MPSX_FN half modf(half x, half& whole) {
  float w;
  const half f(modf(float(x), w));
  whole = half(w);
  return f;
}
#undef MPSX_UNARY
#undef MPSX_BINARY
#undef MPSX_TERNARY
#undef MPSX_TEST
}  // namespace metal
