// Instantiates every function of special.def. Functions with branches are not inlined: their loops do not vectorize
// anyway, and inlining would compile each function once per kernel.
#include "elementwise/kernels.h"
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
// Returns a * log(b) or a * log1p(b), given the logarithm.
inline float times_log(float a, float b, float log_b) {
  const float y = a * log_b;
  return is_nan(b) ? b : (a == 0.0f ? 0.0f : y);
}

// nextafter: returns the value adjacent to x in the direction of y.
template <typename Bits, typename T>
inline T neighbour(T x, T y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return y;
  if (x == T(0.0f)) return as_type<T>(Bits(1 | (y < x ? Bits(1) << (8 * sizeof(T) - 1) : 0)));
  // Incrementing the bits of a floating-point number increases its magnitude by one step.
  return as_type<T>(Bits(as_type<Bits>(x) + ((x < y) == (x > T(0.0f)) ? 1 : -1)));
}
inline float next_after(float x, float y) { return neighbour<uint>(x, y); }
inline float next_after(half x, half y) { return float(neighbour<ushort>(x, y)); }
inline float next_after(bfloat x, bfloat y) { return float(neighbour<ushort>(x, y)); }

// Returns an unsigned type, because a signed type cannot represent the magnitude of its minimum.
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
// On overflow, PyTorch's CPU kernel wraps around and takes the magnitude of the result.
inline int least_multiple(int a, int b) {
  const uint divisor = greatest_divisor(a, b);
  return divisor == 0 ? 0 : absolute(int(magnitude(a) / divisor * magnitude(b)));
}
inline long least_multiple(long a, long b) {
  const ulong divisor = greatest_divisor(a, b);
  return divisor == 0 ? 0 : absolute(long(magnitude(a) / divisor * magnitude(b)));
}

// Metal leaves frexp undefined for infinities.
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
#define FREXP_KERNELS(T, TAG, ...)                                                    \
  MPSX_UNARY_KERNELS(T, TAG, frexp, SAME)                                             \
  MPSX_KERNEL("frexp_exponent_dense_" #TAG, unary_dense<T, int, frexp_exponent_op>)   \
  MPSX_KERNEL("frexp_exponent_strided_" #TAG, unary_strided<T, int, frexp_exponent_op>)
MPSX_FOR_FLOAT(FREXP_KERNELS)

// x * 2^k. The launcher converts the exponent to float32, since half types cannot represent all useful exponents.
struct ldexp_op {
  template <typename C>
  static C apply(C x, C k, Scalars<C>) { return ldexp(x, int(clamp(k, C(-1000), C(1000)))); }
};
MPSX_PLAIN_BINARY_KERNELS(float, f32, ldexp, float)

#define FUNCTION_CALL __attribute__((noinline))
#define FUNCTION_INLINE inline
#define MPSX_SPECIAL(NAME, KIND, ...)                                       \
  FUNCTION_##KIND float NAME##_of(float x) { return __VA_ARGS__; }          \
  struct NAME##_op {                                                        \
    template <typename C>                                                   \
    static C apply(C x, Scalars<C>) { return NAME##_of(x); }                \
  };                                                                        \
  MPSX_FOR_FLOAT(MPSX_UNARY_KERNELS, NAME, SAME)
#define SPECIAL_KERNELS(T, TAG, NAME) MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, T)
#define MPSX_SPECIAL_BINARY(NAME, OVERLOAD, PROMOTION, KIND, ...)                    \
  FUNCTION_##KIND float NAME##_of(float a, float b) { return __VA_ARGS__; }          \
  struct NAME##_op {                                                                 \
    template <typename C>                                                            \
    static C apply(C a, C b, Scalars<C>) { return NAME##_of(a, b); }                 \
  };                                                                                 \
  MPSX_FOR_FLOAT(SPECIAL_KERNELS, NAME)
#define RARE_KERNELS(T, TAG, NAME)                                    \
  MPSX_KERNEL(#NAME "_dense_" #TAG, binary_rows<T, T, NAME##_op<T>, 1, 1>) \
  MPSX_KERNEL(#NAME "_strided_" #TAG, binary_strided<T, T, NAME##_op<T>>)
#define MPSX_RARE_BINARY(NAME, TYPES, PROMOTION, ...)        \
  template <typename T>                                      \
  struct NAME##_op {                                         \
    template <typename C>                                    \
    static C apply(C a, C b, Scalars<C>) { return __VA_ARGS__; } \
  };                                                         \
  MPSX_FOR_##TYPES(RARE_KERNELS, NAME)
#include "elementwise/special.def"

// The order n is a scalar argument.
struct polygamma_op {
  template <typename C>
  static C apply(C x, Scalars<C> s) { return polygamma_of(s.a, x); }
};
MPSX_FOR_FLOAT(MPSX_UNARY_KERNELS, polygamma, SAME)

// Gradients of samples with respect to the distribution's parameters.
__attribute__((noinline)) float gamma_gradient_of(float alpha, float x) { return gamma_gradient(alpha, x); }
struct standard_gamma_grad_op {
  template <typename C>
  static C apply(C alpha, C x, Scalars<C>) { return gamma_gradient_of(alpha, x); }
};
SPECIAL_KERNELS(float, f32, standard_gamma_grad)
__attribute__((noinline)) float dirichlet_gradient_of(float x, float alpha, float total) {
  return dirichlet_gradient(x, alpha, total);
}
struct dirichlet_grad_op {
  template <typename A, typename C>
  static C apply(A x, C alpha, C total, Scalars<C>) { return dirichlet_gradient_of(x, alpha, total); }
};
MPSX_TERNARY_KERNELS(float, f32, dirichlet_grad)
