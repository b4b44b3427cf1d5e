// Instantiates the functions in special.def. Functions with branches are not inlined: their loops do not vectorize
// anyway, and inlining would compile each function once per kernel.
#include "elementwise/kernels.h"
#include "elementwise/special.h"

#define FREXP_KERNELS(T, TAG, ...)                                                    \
  MPSX_UNARY_KERNELS(T, TAG, frexp, SAME)                                             \
  MPSX_KERNEL("frexp_exponent_dense_" #TAG, unary_dense<T, int, frexp_exponent_op>)   \
  MPSX_KERNEL("frexp_exponent_strided_" #TAG, unary_strided<T, int, frexp_exponent_op>)
MPSX_FOR_FLOAT(FREXP_KERNELS)

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

// The gradients of samples in the parameters of their distribution.
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
