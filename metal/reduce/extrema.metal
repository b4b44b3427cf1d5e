// The reductions of reduce.def whose result is an element, a truth value or a count.
#include "reduce/reduction.h"

#define MPSX_KERNELS_ALL_SAME(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_T, NAME)
#define MPSX_KERNELS_ALL_BOOL(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_BOOL, NAME)
#define MPSX_KERNELS_ALL_LONG(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_LONG, NAME)
#define MPSX_KERNELS_ALL_SUM(NAME)
#define MPSX_KERNELS_FLOAT_SUM(NAME)
#include "reduce/reduce.def"
