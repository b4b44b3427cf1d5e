// half and bfloat: 16-bit types that, as in Metal, compute in float and round after every operation.
#pragma once

namespace metal {
// Conversions that use integer arithmetic, for constant expressions and for processors without conversion instructions.
// They round to nearest even and preserve NaN.
MPSX_FN constexpr float mpsx_half_to_float_bits(uint16_t h) {
  const uint32_t magnitude = uint32_t(h & 0x7fffu) << 13;
  // Multiplying by 2^112 changes the exponent bias from 15 to 127 and normalizes subnormals.
  const uint32_t finite = as_type<uint32_t>(as_type<float>(magnitude) * 0x1p112f);
  const uint32_t bits = (h & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : finite;
  return as_type<float>(bits | uint32_t(h & 0x8000u) << 16);
}
MPSX_FN constexpr uint16_t mpsx_float_to_half_bits(float f) {
  const uint32_t u = as_type<uint32_t>(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // Below 2^-14, adding 0.5 in float rounds at the right bit. For larger values, `normal` is used.
  const uint32_t small = as_type<uint32_t>(as_type<float>(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
  uint32_t r = a < 0x38800000u ? small : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u : r;
  return uint16_t(r | sign);
}
#if defined(__F16C__) || defined(__aarch64__) || defined(__NVPTX__)
#define MPSX_NATIVE_HALF 1
#else
#define MPSX_NATIVE_HALF 0
#endif
MPSX_FN constexpr float mpsx_half_to_float(uint16_t h) {
#if MPSX_NATIVE_HALF
  if (!__builtin_is_constant_evaluated()) return float(as_type<_Float16>(h));
#endif
  return mpsx_half_to_float_bits(h);
}
MPSX_FN constexpr uint16_t mpsx_float_to_half(float f) {
#if MPSX_NATIVE_HALF
  if (!__builtin_is_constant_evaluated()) return as_type<uint16_t>(_Float16(f));
#endif
  return mpsx_float_to_half_bits(f);
}
MPSX_FN constexpr float mpsx_bfloat_to_float(uint16_t b) { return as_type<float>(uint32_t(b) << 16); }
MPSX_FN constexpr uint16_t mpsx_float_to_bfloat(float f) {
#if defined(__NVPTX__)
  if (!__builtin_is_constant_evaluated()) return as_type<uint16_t>(__bf16(f));
#endif
  const uint32_t u = as_type<uint32_t>(f);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return uint16_t(f != f ? (u >> 16) | 0x40u : rounded);
}

// Define copy assignment for gcc, which does not vectorize the implicit one. clang vectorizes a defaulted copy
// assignment, and the type remains trivial.
#if defined(__clang__)
#define MPSX_COPY(TYPE)                          \
  constexpr TYPE& operator=(const TYPE&) = default;
#else
#define MPSX_COPY(TYPE)                                    \
  MPSX_FN constexpr TYPE& operator=(const TYPE& o) {       \
    bits = o.bits;                                         \
    return *this;                                          \
  }
#endif
// A user-defined class that converts to a number must also convert to bfloat, as it would to a built-in type, unless it
// defines its own conversion to bfloat.
#ifdef MPSX_GENERAL
template <class C, class T, class = void>
constexpr bool mpsx_has_conversion = false;
template <class C, class T>
constexpr bool mpsx_has_conversion<C, T, mpsx_void_t<decltype(declval<C&>().operator T())>> = true;
template <class C, class = void>
struct mpsx_number_of_class {};
template <class C>
struct mpsx_number_of_class<
    C, enable_if_t<__is_class(C) && is_arithmetic_v<decay_t<decltype(+declval<C&>())>> && !is_same_v<C, half> &&
                   !is_same_v<C, bfloat>>> {
  typedef decay_t<decltype(+declval<C&>())> type;
};
template <class C>
using mpsx_number_of = typename mpsx_number_of_class<remove_cv_t<remove_reference_t<C>>>::type;
#define MPSX_FROM_CLASS(TYPE, FROM_FLOAT)                                                                  \
  template <class C, class N = mpsx_number_of<C>,                                                          \
            class = enable_if_t<!mpsx_has_conversion<remove_cv_t<remove_reference_t<C>>, TYPE>>>           \
  MPSX_FN constexpr TYPE(C&& c) : bits(FROM_FLOAT(float(N(c)))) {}
#define MPSX_WITH_CLASS(TYPE, OP)                                 \
  template <class C, class N = mpsx_number_of<C>>                 \
  MPSX_FN constexpr auto operator OP(TYPE a, C&& b) {             \
    return a OP N(b);                                             \
  }                                                               \
  template <class C, class N = mpsx_number_of<C>>                 \
  MPSX_FN constexpr auto operator OP(C&& a, TYPE b) {             \
    return N(a) OP b;                                             \
  }
#else
#define MPSX_FROM_CLASS(TYPE, FROM_FLOAT)
#define MPSX_WITH_CLASS(TYPE, OP)
#endif
#define MPSX_MINIFLOAT(TYPE, OTHER, TO_FLOAT, FROM_FLOAT)                                             \
  struct TYPE {                                                                                       \
    uint16_t bits;                                                                                    \
    TYPE() = default;                                                                                 \
    constexpr TYPE(const TYPE&) = default;                                                            \
    MPSX_COPY(TYPE)                                                                                   \
    template <class A, class = enable_if_t<is_same_v<A, float> || is_same_v<A, double> || is_integral_v<A> ||          \
                                           __is_enum(A)>>                                                     \
    MPSX_FN constexpr TYPE(A a) : bits(FROM_FLOAT(float(a))) {}                                       \
    MPSX_FN explicit constexpr TYPE(OTHER);                                                           \
    MPSX_FROM_CLASS(TYPE, FROM_FLOAT)                                                                 \
    MPSX_FN constexpr operator float() const { return TO_FLOAT(bits); }                               \
    static MPSX_FN constexpr TYPE from_bits(unsigned bits) {                                          \
      TYPE r(0);                                                                                      \
      r.bits = uint16_t(bits);                                                                        \
      return r;                                                                                       \
    }                                                                                                 \
  };
#if !MPSX_BUILTIN_HALF
MPSX_MINIFLOAT(half, bfloat, mpsx_half_to_float, mpsx_float_to_half)
#endif
MPSX_MINIFLOAT(bfloat, half, mpsx_bfloat_to_float, mpsx_float_to_bfloat)
#undef MPSX_MINIFLOAT
#undef MPSX_FROM_CLASS
#undef MPSX_COPY
#if !MPSX_BUILTIN_HALF
MPSX_FN constexpr half::half(bfloat b) : bits(mpsx_float_to_half(float(b))) {}
#endif
MPSX_FN constexpr bfloat::bfloat(half h) : bits(mpsx_float_to_bfloat(float(h))) {}

// Operations on two halves, or on a half and an integer, yield half. Operations on a half and a float use the built-in
// operators and yield float.
#define MPSX_MINIFLOAT_BINARY(TYPE, OP)                                                                 \
  MPSX_FN constexpr TYPE operator OP(TYPE a, TYPE b) { return TYPE(float(a) OP float(b)); }             \
  template <class I, class = enable_if_t<is_integral_v<I>>>                                             \
  MPSX_FN constexpr TYPE operator OP(TYPE a, I b) {                                                     \
    return TYPE(float(a) OP float(TYPE(b)));                                                            \
  }                                                                                                     \
  template <class I, class = enable_if_t<is_integral_v<I>>>                                             \
  MPSX_FN constexpr TYPE operator OP(I a, TYPE b) {                                                     \
    return TYPE(float(TYPE(a)) OP float(b));                                                            \
  }                                                                                                     \
  MPSX_FN constexpr float operator OP(TYPE a, float b) { return float(a) OP b; }                        \
  MPSX_FN constexpr float operator OP(float a, TYPE b) { return a OP float(b); }                        \
  MPSX_WITH_CLASS(TYPE, OP)                                                                             \
  template <class A>                                                                                    \
  MPSX_FN constexpr TYPE& operator OP##=(TYPE& a, A b) {                                                \
    return a = TYPE(a OP b);                                                                            \
  }                                                                                                     \
  template <class A, class = enable_if_t<is_arithmetic_v<A> && !is_same_v<A, half> && !is_same_v<A, bfloat>>> \
  MPSX_FN constexpr A& operator OP##=(A& a, TYPE b) {                                                   \
    return a = A(a OP b);                                                                               \
  }
#define MPSX_MINIFLOAT_COMPARE(TYPE, OP)                                                                \
  MPSX_FN constexpr bool operator OP(TYPE a, TYPE b) { return float(a) OP float(b); }                   \
  template <class A, class = enable_if_t<is_integral_v<A> || is_same_v<A, float>>>                      \
  MPSX_FN constexpr bool operator OP(TYPE a, A b) {                                                     \
    return float(a) OP float(b);                                                                        \
  }                                                                                                     \
  template <class A, class = enable_if_t<is_integral_v<A> || is_same_v<A, float>>>                      \
  MPSX_FN constexpr bool operator OP(A a, TYPE b) {                                                     \
    return float(a) OP float(b);                                                                        \
  }                                                                                                     \
  MPSX_WITH_CLASS(TYPE, OP)
#define MPSX_MINIFLOAT_OPERATORS(TYPE)                                                     \
  MPSX_MINIFLOAT_BINARY(TYPE, +)                                                           \
  MPSX_MINIFLOAT_BINARY(TYPE, -)                                                           \
  MPSX_MINIFLOAT_BINARY(TYPE, *)                                                           \
  MPSX_MINIFLOAT_BINARY(TYPE, /)                                                           \
  MPSX_MINIFLOAT_COMPARE(TYPE, ==)                                                         \
  MPSX_MINIFLOAT_COMPARE(TYPE, !=)                                                         \
  MPSX_MINIFLOAT_COMPARE(TYPE, <)                                                          \
  MPSX_MINIFLOAT_COMPARE(TYPE, <=)                                                         \
  MPSX_MINIFLOAT_COMPARE(TYPE, >)                                                          \
  MPSX_MINIFLOAT_COMPARE(TYPE, >=)                                                         \
  MPSX_FN constexpr TYPE operator+(TYPE a) { return a; }                                   \
  MPSX_FN constexpr TYPE operator-(TYPE a) { return TYPE::from_bits(a.bits ^ 0x8000u); } \
  MPSX_FN constexpr TYPE& operator++(TYPE& a) { return a = a + 1; }                        \
  MPSX_FN constexpr TYPE& operator--(TYPE& a) { return a = a - 1; }                        \
  MPSX_FN constexpr TYPE operator++(TYPE& a, int) {                                        \
    const TYPE old = a;                                                                    \
    a = a + 1;                                                                             \
    return old;                                                                            \
  }                                                                                        \
  MPSX_FN constexpr TYPE operator--(TYPE& a, int) {                                        \
    const TYPE old = a;                                                                    \
    a = a - 1;                                                                             \
    return old;                                                                            \
  }
#if !MPSX_BUILTIN_HALF
MPSX_MINIFLOAT_OPERATORS(half)
#endif
MPSX_MINIFLOAT_OPERATORS(bfloat)
#undef MPSX_MINIFLOAT_OPERATORS
#undef MPSX_MINIFLOAT_COMPARE
#undef MPSX_MINIFLOAT_BINARY
#undef MPSX_WITH_CLASS
template <class T>
MPSX_FN constexpr T mpsx_small_from_bits(uint16_t bits) {
  if constexpr (__is_class(T))
    return T::from_bits(bits);
  else
    return as_type<T>(bits);
}
template <class T, uint16_t MAX, uint16_t MIN, uint16_t EPSILON, uint16_t INF, int DIGITS, int EXPONENT>
struct mpsx_minifloat_limits : mpsx_float_limits {
  static constexpr int digits = DIGITS, digits10 = (DIGITS - 1) * 30103 / 100000;
  static constexpr int max_digits10 = 2 + DIGITS * 30103 / 100000;
  static constexpr int max_exponent = EXPONENT, min_exponent = 3 - EXPONENT;
  static constexpr int max_exponent10 = EXPONENT * 30103 / 100000, min_exponent10 = (2 - EXPONENT) * 30103 / 100000;
  static constexpr T max() { return mpsx_small_from_bits<T>(MAX); }
  static constexpr T min() { return mpsx_small_from_bits<T>(MIN); }
  static constexpr T lowest() { return mpsx_small_from_bits<T>(MAX | 0x8000u); }
  static constexpr T epsilon() { return mpsx_small_from_bits<T>(EPSILON); }
  static constexpr T round_error() { return T(0.5f); }
  static constexpr T infinity() { return mpsx_small_from_bits<T>(INF); }
  static constexpr T quiet_NaN() { return mpsx_small_from_bits<T>(INF | (INF >> 1)); }
  static constexpr T signaling_NaN() { return mpsx_small_from_bits<T>(INF | 1u); }
  static constexpr T denorm_min() { return mpsx_small_from_bits<T>(1); }
};
template <>
struct numeric_limits<half> : mpsx_minifloat_limits<half, 0x7bff, 0x0400, 0x1400, 0x7c00, 11, 16> {};
template <>
struct numeric_limits<bfloat> : mpsx_minifloat_limits<bfloat, 0x7f7f, 0x0080, 0x3c00, 0x7f80, 8, 128> {};
}  // namespace metal
#define HALF_DIG 2
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_RADIX 2
#define HALF_MAX half(65504.0f)
#define HALF_MIN half(6.103515625e-5f)
#define HALF_EPSILON half(9.765625e-4f)
#define MAXHALF HALF_MAX
#define HUGE_VALH half(__builtin_huge_valf())
#define BFLT_DIG 2
#define BFLT_MANT_DIG 8
#define BFLT_MAX_EXP 128
#define BFLT_MIN_EXP (-125)
#define BFLT_RADIX 2
#define BFLT_MAX ::metal::numeric_limits<bfloat>::max()
#define BFLT_MIN ::metal::numeric_limits<bfloat>::min()
#define BFLT_EPSILON ::metal::numeric_limits<bfloat>::epsilon()
#define MAXBFLOAT BFLT_MAX
#define HUGE_VALBF bfloat(__builtin_huge_valf())
