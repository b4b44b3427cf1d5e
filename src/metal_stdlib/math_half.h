// The float functions for half and bfloat. They compute in float and round once.
#pragma once

#define MPSX_UNARY_MATH(M)                                                                                  \
  M(acos) M(acosh) M(asin) M(asinh) M(atan) M(atanh) M(ceil) M(cos) M(cosh) M(cospi) M(exp) M(exp10) M(exp2) \
  M(fabs) M(floor) M(fract) M(log) M(log10) M(log2) M(rint) M(round) M(rsqrt) M(saturate) M(sign) M(sin)    \
  M(sinh) M(sinpi) M(sqrt) M(tan) M(tanh) M(tanpi) M(trunc)
#define MPSX_BINARY_MATH(M) \
  M(atan2) M(copysign) M(fdim) M(fmax) M(fmin) M(fmod) M(nextafter) M(pow) M(powr) M(step)
#define MPSX_TERNARY_MATH(M) M(fma) M(mix) M(smoothstep) M(fmax3) M(fmin3) M(fmedian3)
#define MPSX_TEST_MATH(M) M(isfinite) M(isinf) M(isnan) M(isnormal) M(signbit)

namespace metal {
// Half or bfloat if every argument has that type or an integer type, otherwise void. The functions for half and bfloat
// are templates, so a kernel's own overloads for bfloat in namespace metal take precedence.
template <class T>
constexpr bool mpsx_is_small = is_same_v<T, half> || is_same_v<T, bfloat>;
template <class... A>
struct mpsx_small {
  typedef void type;
};
template <class H>
struct mpsx_small<H> : conditional<mpsx_is_small<H>, H, void> {};
template <class A, class... B>
struct mpsx_small<A, B...> {
  typedef typename mpsx_small<B...>::type rest;
  typedef conditional_t<mpsx_is_small<A> && ((is_same_v<A, B> || is_integral_v<B>) && ...), A,
                        conditional_t<is_integral_v<A>, rest, void>> type;
};
template <class... A>
using mpsx_if_small = enable_if_t<mpsx_is_small<typename mpsx_small<A...>::type>, typename mpsx_small<A...>::type>;
template <class H>
using mpsx_of_small = enable_if_t<mpsx_is_small<H>, bool>;
// The result type of a function. Metal defines the functions for half but not for bfloat, which it converts to float.
#ifdef MPSX_METAL_OVERLOADS
template <class... A>
using mpsx_small_result = conditional_t<is_same_v<mpsx_if_small<A...>, bfloat>, float, mpsx_if_small<A...>>;
#else
template <class... A>
using mpsx_small_result = mpsx_if_small<A...>;
#endif

// A call with an integer argument is ambiguous, as it is in Metal.
#define MPSX_UNARY(F)                                                      \
  template <class H>                                                       \
  MPSX_FN mpsx_small_result<H> F(H x) {                                    \
    return mpsx_small_result<H>(F(float(x)));                              \
  }                                                                        \
  template <class I, class = enable_if_t<is_integral_v<I>>>                \
  float F(I) = delete;
#define MPSX_BINARY(F)                                                     \
  template <class A, class B>                                              \
  MPSX_FN mpsx_small_result<A, B> F(A x, B y) {                            \
    return mpsx_small_result<A, B>(F(float(x), float(y)));                 \
  }
#define MPSX_TERNARY(F)                                                    \
  template <class A, class B, class C>                                     \
  MPSX_FN mpsx_small_result<A, B, C> F(A x, B y, C z) {                    \
    return mpsx_small_result<A, B, C>(F(float(x), float(y), float(z)));    \
  }
#define MPSX_TEST(F)                         \
  template <class H, mpsx_of_small<H> = true> \
  MPSX_FN constexpr bool F(H x) {            \
    return F(float(x));                      \
  }
MPSX_UNARY_MATH(MPSX_UNARY)
MPSX_BINARY_MATH(MPSX_BINARY)
MPSX_BINARY(divide)
MPSX_TERNARY_MATH(MPSX_TERNARY)
MPSX_TEST_MATH(MPSX_TEST)
// The float next to x rounds back to x, so step the bits of the half instead.
MPSX_FN half nextafter(half x, half y) {
  if (isnan(x) || isnan(y)) return half(float(x) + float(y));
  if (float(x) == float(y)) return y;
  const uint16_t bits = as_type<uint16_t>(x);
  if (float(x) == 0.0f) return as_type<half>(uint16_t((as_type<uint16_t>(y) & 0x8000u) | 1u));
  return as_type<half>(uint16_t((float(x) < float(y)) == (float(x) > 0.0f) ? bits + 1 : bits - 1));
}
template <class H>
MPSX_FN constexpr mpsx_if_small<H> abs(H x) {
  if constexpr (__is_class(H))
    return H::from_bits(x.bits & 0x7fffu);
  else
    return as_type<H>(uint16_t(as_type<uint16_t>(x) & 0x7fffu));
}
template <class H>
MPSX_FN mpsx_if_small<H> ldexp(H x, int n) {
  return H(ldexp(float(x), n));
}
template <class H, mpsx_of_small<H> = true>
MPSX_FN int ilogb(H x) {
  return ilogb(float(x));
}
template <class H>
MPSX_FN mpsx_if_small<H> frexp(H x, int& exponent) {
  return H(frexp(float(x), exponent));
}
template <class H>
MPSX_FN mpsx_if_small<H> modf(H x, H& whole) {
  float w;
  const H f(modf(float(x), w));
  whole = H(w);
  return f;
}
template <class H>
MPSX_FN mpsx_if_small<H> sincos(H x, H& cosine) {
  cosine = cos(x);
  return sin(x);
}
template <class H>
MPSX_FN mpsx_if_small<H> max(H a, H b) {
  return H(fmax(float(a), float(b)));
}
template <class H>
MPSX_FN mpsx_if_small<H> min(H a, H b) {
  return H(fmin(float(a), float(b)));
}
template <class H>
MPSX_FN mpsx_if_small<H> clamp(H x, H lo, H hi) {
  return min(max(x, lo), hi);
}
template <class H>
MPSX_FN mpsx_if_small<H> max3(H a, H b, H c) {
  return max(max(a, b), c);
}
template <class H>
MPSX_FN mpsx_if_small<H> min3(H a, H b, H c) {
  return min(min(a, b), c);
}
template <class H>
MPSX_FN mpsx_if_small<H> median3(H a, H b, H c) {
  return max(min(a, b), min(max(a, b), c));
}
template <class H>
MPSX_FN constexpr mpsx_if_small<H> select(H a, H b, bool c) {
  return c ? b : a;
}
template <class H, mpsx_of_small<H> = true>
MPSX_FN constexpr bool isordered(H a, H b) {
  return isordered(float(a), float(b));
}
template <class H, mpsx_of_small<H> = true>
MPSX_FN constexpr bool isunordered(H a, H b) {
  return isunordered(float(a), float(b));
}
#undef MPSX_UNARY
#undef MPSX_BINARY
#undef MPSX_TERNARY
#undef MPSX_TEST
}  // namespace metal
