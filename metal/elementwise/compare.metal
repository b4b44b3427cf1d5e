// Every operator of compare.def. None needs kernels with the scalar on the left: launchers mirror the comparison.
#include "elementwise/kernels.h"

#define MPSX_COMPARE(NAME, OVERLOADS, ...)                                             \
  struct NAME##_op {                                                                   \
    template <typename C>                                                              \
    static bool apply(C a, C b, Scalars<C>) { return __VA_ARGS__; }                    \
  };                                                                                   \
  MPSX_FOR_ALL(MPSX_BINARY_KERNELS, NAME, BOOL)
#include "elementwise/compare.def"
