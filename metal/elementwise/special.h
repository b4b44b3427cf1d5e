// The functions in special.def, and frexp and ldexp.
#pragma once

#include "elementwise/scalars.h"
#include "elementwise/special_bessel.h"
#include "elementwise/special_gradients.h"
#include "elementwise/special_incomplete_gamma.h"
#include "elementwise/special_normal.h"
#include "elementwise/special_polynomials.h"

inline float log_add(float a, float b) {
  const float y = propagating_max(a, b) + log1p(exp_nonpositive(-fabs(a - b)));
  return is_infinite(a) && a == b ? a : y;
}
inline float log2_add(float a, float b) {
  const float y = propagating_max(a, b) + log1p(precise::exp2(-fabs(a - b))) * M_LOG2E_F;
  return is_infinite(a) && a == b ? a : y;
}
// Returns a * log_b, where log_b is log(b) or log1p(b). The result is 0 if a is 0, unless b is NaN.
inline float times_log(float a, float b, float log_b) {
  const float y = a * log_b;
  return is_nan(b) ? b : (a == 0.0f ? 0.0f : y);
}

// nextafter returns the representable value next to x in the direction of y.
template <typename Bits, typename T>
inline T neighbour(T x, T y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return y;
  if (x == T(0.0f)) return as_type<T>(Bits(1 | (y < x ? Bits(1) << (8 * sizeof(T) - 1) : 0)));
  // Incrementing the bits of a floating-point number moves it one step away from zero.
  return as_type<T>(Bits(as_type<Bits>(x) + ((x < y) == (x > T(0.0f)) ? 1 : -1)));
}
inline float next_after(float x, float y) { return neighbour<uint>(x, y); }
inline float next_after(half x, half y) { return float(neighbour<ushort>(x, y)); }
inline float next_after(bfloat x, bfloat y) { return float(neighbour<ushort>(x, y)); }

// The result is unsigned, because a signed type cannot represent the magnitude of its minimum.
inline uint magnitude(int x) { return x < 0 ? 0u - uint(x) : uint(x); }
inline ulong magnitude(long x) { return x < 0 ? 0ul - ulong(x) : ulong(x); }
template <typename U>
inline U divisor_of(U a, U b) {
  while (a != U(0)) {
    const U rest = b % a;
    b = a;
    a = rest;
  }
  return b;
}
inline uint greatest_divisor(int a, int b) { return divisor_of(magnitude(a), magnitude(b)); }
inline ulong greatest_divisor(long a, long b) { return divisor_of(magnitude(a), magnitude(b)); }
// On overflow, wraps around and returns the magnitude, like PyTorch's CPU kernel.
inline int least_multiple(int a, int b) {
  const uint divisor = greatest_divisor(a, b);
  return divisor == 0 ? 0 : absolute(int(magnitude(a) / divisor * magnitude(b)));
}
inline long least_multiple(long a, long b) {
  const ulong divisor = greatest_divisor(a, b);
  return divisor == 0 ? 0 : absolute(long(magnitude(a) / divisor * magnitude(b)));
}

// In Metal, frexp of an infinity is undefined.
inline bool is_finite_float(float x) { return !is_nan(x) && !is_infinite(x); }
struct frexp_op {
  template <typename C>
  static C apply(C x, Scalars<C>) {
    int exponent = 0;
    return is_finite_float(x) ? frexp(x, exponent) : x;
  }
};
struct frexp_exponent_op {
  template <typename C>
  static int apply(C x, Scalars<C>) {
    int exponent = 0;
    frexp(is_finite_float(x) ? x : 0.0f, exponent);
    return exponent;
  }
};

// Computes x * 2^k. The launcher converts the exponent to float32, because half types cannot represent all useful
// exponents.
struct ldexp_op {
  template <typename C>
  static C apply(C x, C k, Scalars<C>) { return ldexp(x, int(clamp(k, C(-1000), C(1000)))); }
};
