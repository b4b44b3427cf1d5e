// Instantiates every operator of compare.def. A broadcast left column needs no kernel: the launcher swaps the operands
// and uses the mirrored operator.
#include "elementwise/kernels.h"

#define MPSX_COMPARE(NAME, OVERLOADS, MIRROR, ...)                                             \
  struct NAME##_op {                                                                   \
    template <typename C>                                                              \
    static bool apply(C a, C b, Scalars<C>) { return __VA_ARGS__; }                    \
  };                                                                                   \
  MPSX_FOR_ALL(MPSX_BINARY_KERNELS_SWAPS, NAME, BOOL)
#include "elementwise/compare.def"
