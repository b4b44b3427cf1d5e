// Division with rounding, remainder and power. The launcher checks that integer divisors are nonzero.
#pragma once

#include "elementwise/integer_division.h"
#include "elementwise/scalars.h"
#include "lib/arithmetic.h"

struct floor_divide_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) { return floor_quotient(a, b); }
  // Python's floor division. It is computed from the exact remainder, so that floor_divide(a, b) * b + remainder(a, b)
  // == a.
  static float from_remainder(float a, float b, float r) {
    float d = (a - r) / b;
    d = r != 0.0f && (b < 0.0f) != (r < 0.0f) ? d - 1.0f : d;
    const float f = floor(d);
    const float rounded = d != 0.0f ? (d - f > 0.5f ? f + 1.0f : f) : copysign(0.0f, a / b);
    return b == 0.0f ? a / b : rounded;
  }
};
template <>
inline float floor_divide_op::apply<float>(float a, float b, Scalars<float>) {
  return from_remainder(a, b, fmod(a, b));
}

struct div_trunc_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) { return quotient(a, b); }
};
template <>
inline float div_trunc_op::apply<float>(float a, float b, Scalars<float>) { return trunc(a / b); }

struct fmod_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) { return rest(a, b); }
};
template <>
inline float fmod_op::apply<float>(float a, float b, Scalars<float>) { return fmod(a, b); }

struct remainder_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) { return floor_remainder(a, b); }
  static float from_remainder(float b, float r) { return r != 0.0f && (b < 0.0f) != (r < 0.0f) ? r + b : r; }
};
template <>
inline float remainder_op::apply<float>(float a, float b, Scalars<float>) { return from_remainder(b, fmod(a, b)); }

// Integer powers by repeated squaring. Overflow wraps around. A negative exponent yields 0 unless the base is 1 or -1.
struct pow_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C>) {
    if (b < C(0)) return a == C(1) ? C(1) : (a == C(-1) ? C((b & C(1)) != C(0) ? -1 : 1) : C(0));
    C result = C(1);
    while (b != C(0)) {
      if ((b & C(1)) != C(0)) result = multiply(result, a);
      a = multiply(a, a);
      b = C(b >> 1);
    }
    return result;
  }
};
template <>
inline float pow_op::apply<float>(float a, float b, Scalars<float>) { return precise::pow(a, b); }

// Powers that PyTorch's CPU kernels compute with multiplications. half and bfloat results are rounded only once.
struct square_op {
  template <typename C>
  static C apply(C x, Scalars<C>) { return multiply(x, x); }
};
struct cube_op {
  template <typename C>
  static C apply(C x, Scalars<C>) { return multiply(multiply(x, x), x); }
};
struct inverse_square_op {
  template <typename C>
  static C apply(C x, Scalars<C>) { return 1.0f / (x * x); }
};
