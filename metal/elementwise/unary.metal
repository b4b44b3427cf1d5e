// Instantiates the operators in unary.def.
#include "elementwise/kernels.h"
#include "elementwise/rounding.h"
#include "lib/arithmetic.h"
#include "lib/math.h"

#define MPSX_UNARY(NAME, TYPES, RESULT, ...)                            \
  struct NAME##_op {                                                    \
    template <typename C>                                               \
    static auto apply(C x, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                    \
  MPSX_FOR_##TYPES(MPSX_UNARY_KERNELS, NAME, RESULT)
#include "elementwise/unary.def"
