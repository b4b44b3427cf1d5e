// The reductions in reduce.def that return a sum or a norm. Sums of integers have type long.
#include "reduce/reduction.h"

#define MPSX_KERNELS_FLOAT_SUM(NAME) MPSX_FOR_FLOAT(MPSX_RESULT_IS_T, NAME) MPSX_RESULT_WIDENS(NAME)
#define MPSX_KERNELS_ALL_SUM(NAME) \
  MPSX_KERNELS_FLOAT_SUM(NAME) MPSX_FOR_INT(MPSX_RESULT_IS_LONG, NAME) MPSX_FOR_BOOL(MPSX_RESULT_IS_LONG, NAME)
#define MPSX_KERNELS_ALL_SAME(NAME)
#define MPSX_KERNELS_ALL_BOOL(NAME)
#define MPSX_KERNELS_ALL_LONG(NAME)
#include "reduce/reduce.def"
