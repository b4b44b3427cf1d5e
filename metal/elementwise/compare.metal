// Instantiates every operator of compare.def. Launchers swap the operands of mirrored operators, so kernels with a
// broadcast left column are not needed.
#include "elementwise/kernels.h"

#define MPSX_COMPARE(NAME, OVERLOADS, MIRROR, ...)                                             \
  struct NAME##_op {                                                                   \
    template <typename C>                                                              \
    static bool apply(C a, C b, Scalars<C>) { return __VA_ARGS__; }                    \
  };                                                                                   \
  MPSX_FOR_ALL(MPSX_BINARY_KERNELS_SWAPS, NAME, BOOL)
#include "elementwise/compare.def"
