// <metal_limits>.
#pragma once

namespace metal {
template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>;
  static constexpr bool is_integer = true, is_signed = is_signed_v<T>, has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits = is_same_v<T, bool> ? 1 : int(sizeof(T) * 8) - is_signed_v<T>;
  static constexpr T max() { return is_signed_v<T> ? T((T(1) << (digits - 1)) - 1 + (T(1) << (digits - 1))) : T(~T(0)); }
  static constexpr T min() { return is_signed_v<T> ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};
template <>
struct numeric_limits<bool> {
  static constexpr bool is_specialized = true, is_integer = true, is_signed = false;
  static constexpr bool has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits = 1;
  static constexpr bool max() { return true; }
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
};
template <>
struct numeric_limits<float> {
  static constexpr bool is_specialized = true, is_integer = false, is_signed = true;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 24, digits10 = 6, max_exponent = 128, min_exponent = -125, radix = 2;
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float epsilon() { return __FLT_EPSILON__; }
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
  static constexpr float denorm_min() { return __FLT_DENORM_MIN__; }
};
}  // namespace metal
