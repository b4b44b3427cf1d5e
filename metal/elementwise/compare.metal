// Every operator of compare.def. None needs kernels with a column on the left: launchers swap the operands of the
// mirrored one.
#include "elementwise/kernels.h"

#define MPSX_COMPARE(NAME, OVERLOADS, MIRROR, ...)                                             \
  struct NAME##_op {                                                                   \
    template <typename C>                                                              \
    static bool apply(C a, C b, Scalars<C>) { return __VA_ARGS__; }                    \
  };                                                                                   \
  MPSX_FOR_ALL(MPSX_BINARY_KERNELS_SWAPS, NAME, BOOL)
#include "elementwise/compare.def"
