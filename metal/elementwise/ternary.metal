// Instantiates the kernels in ternary.h.
#include "elementwise/kernels.h"
#include "elementwise/ternary.h"

#define WHERE(T, TAG, ...)                                              \
  MPSX_KERNEL("where_dense_" #TAG, ternary_dense<bool, T, where_op>)    \
  MPSX_KERNEL("where_strided_" #TAG, ternary_strided<bool, T, where_op>)
MPSX_FOR_ALL(WHERE, )

MPSX_FOR_REAL(MPSX_TERNARY_KERNELS, addcmul)
MPSX_FOR_FLOAT(MPSX_TERNARY_KERNELS, addcdiv)
MPSX_FOR_FLOAT(MPSX_TERNARY_KERNELS, lerp)
MPSX_FOR_FLOAT(MPSX_TERNARY_KERNELS, glu_gate_backward)
#define LERP_NUMBER(T, TAG, ...) MPSX_PLAIN_BINARY_KERNELS(T, TAG, lerp_number, T)
MPSX_FOR_FLOAT(LERP_NUMBER, )
MPSX_FOR_REAL(MPSX_TERNARY_KERNELS, clamp)
MPSX_FOR_REAL(MPSX_UNARY_KERNELS, clamp_numbers, SAME)
