// Every operator of binary.def.
#include "elementwise/kernels.h"
#include "lib/arithmetic.h"

#define MPSX_ORDER_SWAPS(...)
#define MPSX_ORDER_FIXED(TYPES, NAME, RESULT) MPSX_FOR_##TYPES(MPSX_BINARY_LEFT_KERNELS, NAME, RESULT)
#define MPSX_BINARY(NAME, OVERLOAD, TYPES, RESULT, PROMOTION, ORDER, ...)      \
  struct NAME##_op {                                                           \
    template <typename C>                                                      \
    static auto apply(C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                           \
  MPSX_FOR_##TYPES(MPSX_BINARY_KERNELS, NAME, RESULT)                          \
  MPSX_ORDER_##ORDER(TYPES, NAME, RESULT)
#include "elementwise/binary.def"
