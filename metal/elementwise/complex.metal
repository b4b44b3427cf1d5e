// Instantiates the operators in complex.def for dense and strided operands.
#include "elementwise/complex.h"
#include "elementwise/kernels.h"

#define MPSX_FUNCTION_LOOP inline
#define MPSX_FUNCTION_CALL __attribute__((noinline))
#define MPSX_COMPLEX(NAME, RESULT, HOW, ...)                                       \
  MPSX_FUNCTION_##HOW RESULT NAME##_of(float2 z) { return __VA_ARGS__; }           \
  struct NAME##_op {                                                               \
    template <typename C>                                                          \
    static RESULT apply(C z, Scalars<C>) { return NAME##_of(z); }                  \
  };                                                                               \
  MPSX_KERNEL(#NAME "_dense_c64", unary_dense<float2, RESULT, NAME##_op>)          \
  MPSX_KERNEL(#NAME "_strided_c64", unary_strided<float2, RESULT, NAME##_op>)

#define MPSX_FORMS_CALL(NAME, RESULT) MPSX_PLAIN_BINARY_KERNELS(float2, c64, NAME, RESULT)
#define MPSX_FORMS_SWAPS(NAME, RESULT)                                             \
  MPSX_FORMS_CALL(NAME, RESULT)                                                    \
  MPSX_KERNEL(#NAME "_rows_10_c64", binary_rows<float2, RESULT, NAME##_op, 1, 0>)
#define MPSX_FORMS_FIXED(NAME, RESULT)                                             \
  MPSX_FORMS_SWAPS(NAME, RESULT)                                                   \
  MPSX_KERNEL(#NAME "_rows_01_c64", binary_rows<float2, RESULT, NAME##_op, 0, 1>)
#define MPSX_COMPLEX_BINARY(NAME, RESULT, ORDER, ...)                              \
  struct NAME##_op {                                                               \
    template <typename C>                                                          \
    static RESULT apply(C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; }   \
  };                                                                               \
  MPSX_FORMS_##ORDER(NAME, RESULT)
#define MPSX_COMPLEX_TERNARY(NAME, ...)                                                    \
  struct NAME##_op {                                                                       \
    template <typename A, typename C>                                                      \
    static float2 apply(A x, C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; }      \
  };                                                                                       \
  MPSX_TERNARY_KERNELS(float2, c64, NAME)
#include "elementwise/complex.def"

// Build a complex number from two floats: real and imaginary parts (complex), or absolute value and angle (polar).
struct complex_op {
  template <typename C>
  static float2 apply(C a, C b, Scalars<C>) { return float2(a, b); }
};
struct polar_op {
  template <typename C>
  static float2 apply(C a, C b, Scalars<C>) { return float2(a * precise::cos(b), a * precise::sin(b)); }
};
#define MPSX_PAIRS(T, TAG, NAME, PAIR)                                               \
  MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, PAIR)                                      \
  MPSX_KERNEL(#NAME "_rows_10_" #TAG, binary_rows<T, PAIR, NAME##_op, 1, 0>)         \
  MPSX_KERNEL(#NAME "_rows_01_" #TAG, binary_rows<T, PAIR, NAME##_op, 0, 1>)
MPSX_PAIRS(float, f32, complex, float2)
MPSX_PAIRS(half, f16, complex, half2)
MPSX_PAIRS(float, f32, polar, float2)
