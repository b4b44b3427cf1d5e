// Instantiates the operators in compare.def. There is no kernel for a broadcast left operand column, because the
// launcher swaps the operands and uses the mirrored operator.
#include "elementwise/kernels.h"

#define MPSX_COMPARE(NAME, OVERLOADS, MIRROR, ...)                                             \
  struct NAME##_op {                                                                   \
    template <typename C>                                                              \
    static bool apply(C a, C b, Scalars<C>) { return __VA_ARGS__; }                    \
  };                                                                                   \
  MPSX_FOR_ALL(MPSX_BINARY_KERNELS_SWAPS, NAME, BOOL)
#include "elementwise/compare.def"
