// <metal_limits>.
#pragma once

namespace metal {
template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>;
  static constexpr bool is_integer = true, is_exact = true, is_signed = is_signed_v<T>, is_bounded = true;
  static constexpr bool has_infinity = false, has_quiet_NaN = false, has_signaling_NaN = false, is_iec559 = false;
  static constexpr bool is_modulo = !is_signed_v<T>;
  static constexpr int digits = is_same_v<T, bool> ? 1 : int(sizeof(T) * 8) - is_signed_v<T>, radix = 2;
  static constexpr int digits10 = digits * 30103 / 100000, max_digits10 = 0, min_exponent = 0, max_exponent = 0;
  static constexpr T max() {
    return is_signed_v<T> ? T((T(1) << (digits - 1)) - 1 + (T(1) << (digits - 1))) : T(~T(0));
  }
  static constexpr T min() { return is_signed_v<T> ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
  static constexpr T epsilon() { return T(0); }
  static constexpr T infinity() { return T(0); }
  static constexpr T quiet_NaN() { return T(0); }
  static constexpr T denorm_min() { return T(0); }
};
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};
template <class T>
struct numeric_limits<volatile T> : numeric_limits<T> {};
template <>
struct numeric_limits<bool> {
  static constexpr bool is_specialized = true, is_integer = true, is_exact = true, is_signed = false;
  static constexpr bool has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits = 1;
  static constexpr bool max() { return true; }
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
};
struct mpsx_float_limits {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
  static constexpr bool is_bounded = true, is_modulo = false, is_iec559 = true;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr int radix = 2;
};
template <>
struct numeric_limits<float> : mpsx_float_limits {
  static constexpr int digits = 24, digits10 = 6, max_digits10 = 9;
  static constexpr int max_exponent = 128, min_exponent = -125, max_exponent10 = 38, min_exponent10 = -37;
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float epsilon() { return __FLT_EPSILON__; }
  static constexpr float round_error() { return 0.5f; }
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
  static constexpr float signaling_NaN() { return __builtin_nansf(""); }
  static constexpr float denorm_min() { return __FLT_DENORM_MIN__; }
};
}  // namespace metal
