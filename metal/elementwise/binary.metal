// Instantiates the operators in binary.def.
#include "elementwise/fused.h"
#include "elementwise/kernels.h"
#include "elementwise/shift.h"

// renorm: scales x, an element of a vector, so that the vector's norm does not exceed s.a. PyTorch adds 1e-7 to avoid a
// division by zero.
struct shortened_op {
  template <typename C>
  static C apply(C x, C norm, Scalars<C> s) { return norm > s.a ? x * (s.a / (norm + C(1e-7f))) : x; }
};
MPSX_BINARY_KERNELS_SWAPS(float, f32, shortened, SAME)

#define MPSX_BINARY(NAME, OVERLOAD, TYPES, RESULT, PROMOTION, ORDER, NUMBER, ...) \
  struct NAME##_op {                                                           \
    template <typename C>                                                      \
    static auto apply(C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                           \
  MPSX_FOR_##TYPES(MPSX_BINARY_KERNELS_##ORDER, NAME, RESULT)
#include "elementwise/binary.def"

// Under autocast, models often add and multiply float32 and 16-bit tensors.
#define MPSX_MIXED(NAME)                                                       \
  MPSX_KERNEL(#NAME "_mixed_f32_f16", binary_mixed<float, half, NAME##_op>)    \
  MPSX_KERNEL(#NAME "_mixed_f32_bf16", binary_mixed<float, bfloat, NAME##_op>)
MPSX_MIXED(add)
MPSX_MIXED(mul)
