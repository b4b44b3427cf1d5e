// Every operator of complex.def, in loops over dense operands and over any strides.
#include "elementwise/complex.h"
#include "elementwise/kernels.h"

#define MPSX_COMPLEX(NAME, RESULT, ...)                                            \
  __attribute__((noinline)) RESULT NAME##_of(float2 z) { return __VA_ARGS__; }     \
  struct NAME##_op {                                                               \
    template <typename C>                                                          \
    static RESULT apply(C z, Scalars<C>) { return NAME##_of(z); }                  \
  };                                                                               \
  MPSX_KERNEL(#NAME "_dense_c64", unary_dense<float2, RESULT, NAME##_op>)          \
  MPSX_KERNEL(#NAME "_any_c64", unary_rows<float2, RESULT, NAME##_op>)
#define MPSX_COMPLEX_BINARY(NAME, RESULT, ...)                                     \
  struct NAME##_op {                                                               \
    template <typename C>                                                          \
    static RESULT apply(C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; }   \
  };                                                                               \
  MPSX_KERNEL(#NAME "_dense_c64", binary_dense<float2, RESULT, NAME##_op>)         \
  MPSX_KERNEL(#NAME "_any_c64", binary_any<float2, RESULT, NAME##_op>)
#include "elementwise/complex.def"
