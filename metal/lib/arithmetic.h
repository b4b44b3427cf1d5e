// Arithmetic with PyTorch's semantics for every element type: integers wrap around, minima and maxima propagate NaN,
// and bool arithmetic is logical.
#pragma once

#include "lib/types.h"

// Integer arithmetic uses unsigned types so that it wraps around, because signed overflow is undefined in C++.
template <typename T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<char> { typedef uint type; };
template <> struct unsigned_of<uchar> { typedef uint type; };
template <> struct unsigned_of<short> { typedef uint type; };
template <> struct unsigned_of<int> { typedef uint type; };
template <> struct unsigned_of<long> { typedef ulong type; };
template <typename T> using unsigned_of_t = typename unsigned_of<T>::type;

template <typename T> inline T negate(T x) { return T(unsigned_of_t<T>(0) - unsigned_of_t<T>(x)); }
inline float negate(float x) { return -x; }
template <typename T> inline T multiply(T a, T b) { return T(unsigned_of_t<T>(a) * unsigned_of_t<T>(b)); }
inline bool multiply(bool a, bool b) { return a && b; }
inline float multiply(float a, float b) { return a * b; }
template <typename T> inline T add_scaled(T a, T b, T alpha) {
  return T(unsigned_of_t<T>(a) + unsigned_of_t<T>(b) * unsigned_of_t<T>(alpha));
}
// Do not use fma, because PyTorch rounds the product. It matters little: alpha is nearly always 1.
inline float add_scaled(float a, float b, float alpha) { return a + alpha * b; }
inline bool add_scaled(bool a, bool b, bool alpha) { return a || (b && alpha); }
template <typename T> inline T subtract_scaled(T a, T b, T alpha) {
  return T(unsigned_of_t<T>(a) - unsigned_of_t<T>(b) * unsigned_of_t<T>(alpha));
}
inline float subtract_scaled(float a, float b, float alpha) { return a - alpha * b; }

template <typename T> inline T absolute(T x) { return x < T(0) ? negate(x) : x; }
inline float absolute(float x) { return fabs(x); }
template <typename T> inline T sign_of(T x) { return T(T(x > T(0)) - T(x < T(0))); }
inline float sign_of(float x) { return float(x > 0.0f) - float(x < 0.0f); }
inline bool sign_of(bool x) { return x; }
template <typename T> inline bool sign_bit(T x) { return x < T(0); }
inline bool sign_bit(bool) { return false; }
inline bool sign_bit(float x) { return as_type<int>(x) < 0; }

template <typename T> inline bool is_nan(T) { return false; }
inline bool is_nan(float x) { return (as_type<uint>(x) & 0x7fffffffu) > 0x7f800000u; }
template <typename T> inline bool is_infinite(T) { return false; }
inline bool is_infinite(float x) { return (as_type<uint>(x) & 0x7fffffffu) == 0x7f800000u; }

template <typename T> inline T propagating_max(T a, T b) { return a < b ? b : a; }
inline float propagating_max(float a, float b) { return (a > b || is_nan(a)) ? a : b; }
template <typename T> inline T propagating_min(T a, T b) { return b < a ? b : a; }
inline float propagating_min(float a, float b) { return (a < b || is_nan(a)) ? a : b; }
template <typename T> inline T ignoring_max(T a, T b) { return a < b ? b : a; }
inline float ignoring_max(float a, float b) { return (a > b || is_nan(b)) ? a : b; }
template <typename T> inline T ignoring_min(T a, T b) { return b < a ? b : a; }
inline float ignoring_min(float a, float b) { return (a < b || is_nan(b)) ? a : b; }

template <typename T> inline T round_to_even(T x) { return x; }
inline float round_to_even(float x) { return rint(x); }

template <typename T> inline T complement(T x) { return T(~x); }
inline bool complement(bool x) { return !x; }
template <typename T> inline T and_bits(T a, T b) { return T(a & b); }
template <typename T> inline T or_bits(T a, T b) { return T(a | b); }
template <typename T> inline T xor_bits(T a, T b) { return T(a ^ b); }
inline bool xor_bits(bool a, bool b) { return a != b; }

// Returns sqrt(a^2 + b^2). Dividing by the larger magnitude first keeps the squares from overflowing or underflowing.
inline float hypotenuse(float a, float b) {
  const float x = fabs(a), y = fabs(b), big = max(x, y), small = min(x, y);
  const float ratio = big > 0.0f ? small / big : 0.0f;
  const float h = big * precise::sqrt(fma(ratio, ratio, 1.0f));
  const float kept = is_infinite(x) || is_infinite(y) ? INFINITY : (is_nan(a) || is_nan(b) ? a + b : h);
  return kept;
}
