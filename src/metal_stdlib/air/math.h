// AIR's math, integer and conversion intrinsics.
#pragma once

// Defines the intrinsic NAME by calling F, a function of this library.
#define MPSX_AIR_UNARY(TAG, T, NAME, F)                                    \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##NAME##_##TAG(mpsx::air_t<T> x) {      \
    return mpsx::air_pass<T>(T(F(mpsx::air_get<T>(x))));                   \
  }
#define MPSX_AIR_BINARY(TAG, T, NAME, F)                                                        \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##NAME##_##TAG(mpsx::air_t<T> x, mpsx::air_t<T> y) {         \
    return mpsx::air_pass<T>(T(F(mpsx::air_get<T>(x), mpsx::air_get<T>(y))));                   \
  }
#define MPSX_AIR_TERNARY(TAG, T, NAME, F)                                                                          \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##NAME##_##TAG(mpsx::air_t<T> x, mpsx::air_t<T> y, mpsx::air_t<T> z) {          \
    return mpsx::air_pass<T>(T(F(mpsx::air_get<T>(x), mpsx::air_get<T>(y), mpsx::air_get<T>(z))));                 \
  }
#define MPSX_AIR_TEST(TAG, T, NAME, F) \
  MPSX_AIR unsigned mpsx_air_##NAME##_##TAG(mpsx::air_t<T> x) { return F(mpsx::air_get<T>(x)); }

#define MPSX_AIR_PRECISE(F) MPSX_AIR_FLOATS(MPSX_AIR_UNARY, F, metal::precise::F)
#define MPSX_AIR_FAST(F) MPSX_AIR_FLOATS(MPSX_AIR_UNARY, fast_##F, metal::fast::F)
#define MPSX_AIR_BOTH(F) MPSX_AIR_PRECISE(F) MPSX_AIR_FAST(F)
MPSX_AIR_BOTH(acos)
MPSX_AIR_BOTH(acosh)
MPSX_AIR_BOTH(asin)
MPSX_AIR_BOTH(asinh)
MPSX_AIR_BOTH(atan)
MPSX_AIR_BOTH(atanh)
MPSX_AIR_BOTH(ceil)
MPSX_AIR_BOTH(cos)
MPSX_AIR_BOTH(cosh)
MPSX_AIR_BOTH(cospi)
MPSX_AIR_BOTH(exp)
MPSX_AIR_BOTH(exp10)
MPSX_AIR_BOTH(exp2)
MPSX_AIR_BOTH(fabs)
MPSX_AIR_BOTH(floor)
MPSX_AIR_BOTH(fract)
MPSX_AIR_BOTH(log)
MPSX_AIR_BOTH(log10)
MPSX_AIR_BOTH(log2)
MPSX_AIR_BOTH(rint)
MPSX_AIR_BOTH(round)
MPSX_AIR_BOTH(rsqrt)
MPSX_AIR_BOTH(saturate)
MPSX_AIR_BOTH(sign)
MPSX_AIR_BOTH(sin)
MPSX_AIR_BOTH(sinh)
MPSX_AIR_BOTH(sinpi)
MPSX_AIR_BOTH(sqrt)
MPSX_AIR_BOTH(tan)
MPSX_AIR_BOTH(tanh)
MPSX_AIR_BOTH(tanpi)
MPSX_AIR_BOTH(trunc)
#undef MPSX_AIR_PRECISE
#undef MPSX_AIR_FAST
#define MPSX_AIR_PRECISE(F) MPSX_AIR_FLOATS(MPSX_AIR_BINARY, F, metal::F)
#define MPSX_AIR_FAST(F) MPSX_AIR_FLOATS(MPSX_AIR_BINARY, fast_##F, metal::fast::F)
MPSX_AIR_BOTH(atan2)
MPSX_AIR_BOTH(copysign)
MPSX_AIR_BOTH(fdim)
MPSX_AIR_BOTH(fmax)
MPSX_AIR_BOTH(fmin)
MPSX_AIR_BOTH(fmod)
MPSX_AIR_BOTH(nextafter)
MPSX_AIR_BOTH(pow)
MPSX_AIR_BOTH(powr)
MPSX_AIR_BOTH(step)
#undef MPSX_AIR_PRECISE
#undef MPSX_AIR_FAST
#define MPSX_AIR_PRECISE(F) MPSX_AIR_FLOATS(MPSX_AIR_TERNARY, F, metal::F)
#define MPSX_AIR_FAST(F) MPSX_AIR_FLOATS(MPSX_AIR_TERNARY, fast_##F, metal::fast::F)
MPSX_AIR_BOTH(fma)
MPSX_AIR_BOTH(mix)
MPSX_AIR_BOTH(smoothstep)
MPSX_AIR_BOTH(fmax3)
MPSX_AIR_BOTH(fmin3)
MPSX_AIR_BOTH(fmedian3)
MPSX_AIR_BOTH(clamp)
#undef MPSX_AIR_PRECISE
#undef MPSX_AIR_FAST
#define MPSX_AIR_PRECISE(F) MPSX_AIR_FLOATS(MPSX_AIR_TEST, F, metal::F)
#define MPSX_AIR_FAST(F) MPSX_AIR_FLOATS(MPSX_AIR_TEST, fast_##F, metal::F)
MPSX_AIR_BOTH(isfinite)
MPSX_AIR_BOTH(isinf)
MPSX_AIR_BOTH(isnan)
MPSX_AIR_BOTH(isnormal)
MPSX_AIR_BOTH(signbit)
#undef MPSX_AIR_PRECISE
#undef MPSX_AIR_FAST
#undef MPSX_AIR_BOTH
MPSX_AIR_FLOATS(MPSX_AIR_BINARY, fast_divide, metal::fast::divide)

// Functions with a second result, which they return through a pointer.
#define MPSX_AIR_TWO(TAG, T, F)                                                                         \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##F##_##TAG(mpsx::air_t<T> x, mpsx::air_t<T>* second) {              \
    T s;                                                                                                \
    const T r = metal::F(mpsx::air_get<T>(x), s);                                                       \
    *second = mpsx::air_pass<T>(s);                                                                     \
    return mpsx::air_pass<T>(r);                                                                        \
  }
MPSX_AIR_FLOATS(MPSX_AIR_TWO, sincos)
MPSX_AIR_FLOATS(MPSX_AIR_TWO, modf)
#define MPSX_AIR_EXPONENT(TAG, T, ...)                                                                        \
  MPSX_AIR mpsx::air_t<T> mpsx_air_frexp_##TAG(mpsx::air_t<T> x, int* exponent) {                             \
    return mpsx::air_pass<T>(metal::frexp(mpsx::air_get<T>(x), *exponent));                                   \
  }                                                                                                           \
  MPSX_AIR mpsx::air_t<T> mpsx_air_ldexp_##TAG(mpsx::air_t<T> x, int n) {                                     \
    return mpsx::air_pass<T>(metal::ldexp(mpsx::air_get<T>(x), n));                                           \
  }                                                                                                           \
  MPSX_AIR int mpsx_air_ilogb_##TAG(mpsx::air_t<T> x) { return metal::ilogb(mpsx::air_get<T>(x)); }
MPSX_AIR_FLOATS(MPSX_AIR_EXPONENT, )

MPSX_AIR_INTEGERS(MPSX_AIR_UNARY, abs, metal::abs)
MPSX_AIR_INTEGERS(MPSX_AIR_UNARY, clz, metal::clz)
MPSX_AIR_INTEGERS(MPSX_AIR_UNARY, ctz, metal::ctz)
MPSX_AIR_INTEGERS(MPSX_AIR_UNARY, popcount, metal::popcount)
MPSX_AIR_INTEGERS(MPSX_AIR_UNARY, reverse_bits, metal::reverse_bits)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, max, metal::max)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, min, metal::min)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, abs_diff, metal::absdiff)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, add_sat, metal::addsat)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, sub_sat, metal::subsat)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, hadd, metal::hadd)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, rhadd, metal::rhadd)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, mul_hi, metal::mulhi)
MPSX_AIR_INTEGERS(MPSX_AIR_BINARY, rotate, metal::rotate)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, clamp, metal::clamp)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, max3, metal::max3)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, min3, metal::min3)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, median3, metal::median3)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, mad_hi, metal::madhi)
MPSX_AIR_INTEGERS(MPSX_AIR_TERNARY, mad_sat, metal::madsat)

// Conversions. Out-of-range numbers saturate and NaN becomes 0. In C++, both cases are undefined.
namespace mpsx {
template <class To, class From>
MPSX_FN To air_convert(From x) {
  if constexpr (metal::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (metal::is_integral_v<To> && !metal::is_integral_v<From>) {
    const float f = float(x);
    constexpr int bits = int(8 * sizeof(To)) - (metal::is_signed_v<To> ? 1 : 0);
    constexpr float limit = __builtin_bit_cast(float, unsigned(127 + bits) << 23);  // 2^bits
    if (f != f) return To(0);
    if (f >= limit) return metal::numeric_limits<To>::max();
    if (f <= (metal::is_signed_v<To> ? -limit : 0.0f)) return metal::numeric_limits<To>::min();
    return To(f);
  } else {
    return To(x);
  }
}
}  // namespace mpsx
#define MPSX_AIR_CONVERT(TO, R, FROM, T)                                          \
  MPSX_AIR mpsx::air_t<R> mpsx_air_convert_##TO##_##FROM(mpsx::air_t<T> x) {      \
    return mpsx::air_pass<R>(mpsx::air_convert<R>(mpsx::air_get<T>(x)));          \
  }
#define MPSX_AIR_CONVERT_FROM(FROM, T)             \
  MPSX_AIR_NUMBERS(MPSX_AIR_CONVERT, FROM, T)      \
  MPSX_AIR_CONVERT(u1, bool, FROM, T)
MPSX_AIR_CONVERT_FROM(f32, float)
MPSX_AIR_CONVERT_FROM(f16, metal::half)
MPSX_AIR_CONVERT_FROM(bf16, metal::bfloat)
MPSX_AIR_CONVERT_FROM(s8, metal::int8_t)
MPSX_AIR_CONVERT_FROM(u8, metal::uchar)
MPSX_AIR_CONVERT_FROM(s16, short)
MPSX_AIR_CONVERT_FROM(u16, metal::ushort)
MPSX_AIR_CONVERT_FROM(s32, int)
MPSX_AIR_CONVERT_FROM(u32, metal::uint)
MPSX_AIR_CONVERT_FROM(s64, long)
MPSX_AIR_CONVERT_FROM(u64, metal::ulong)
MPSX_AIR_CONVERT_FROM(u1, bool)

// Dot products add the products in order, like metal::dot.
#define MPSX_AIR_DOT(TAG, T, ...)                                                                                  \
  MPSX_AIR mpsx::air_t<T> mpsx_air_dot_product_##TAG(mpsx::air_t<T> sum, mpsx::air_t<T> x, mpsx::air_t<T> y) {     \
    return mpsx::air_pass<T>(T(mpsx::air_get<T>(sum) + mpsx::air_get<T>(x) * mpsx::air_get<T>(y)));                \
  }
MPSX_AIR_FLOATS(MPSX_AIR_DOT, )
#undef MPSX_AIR_DOT
#undef MPSX_AIR_CONVERT_FROM
#undef MPSX_AIR_CONVERT
#undef MPSX_AIR_EXPONENT
#undef MPSX_AIR_TWO
#undef MPSX_AIR_TEST
