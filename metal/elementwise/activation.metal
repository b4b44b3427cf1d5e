// Instantiates the kernels in activation.def.
#include "elementwise/activation.h"
#include "elementwise/kernels.h"

#define MPSX_ACTIVATION(NAME, ...)                                    \
  struct NAME##_op {                                                  \
    template <typename C>                                             \
    static C apply(C x, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                  \
  MPSX_FOR_FLOAT(MPSX_UNARY_KERNELS, NAME, SAME)
#define BACKWARD_KERNELS(T, TAG, NAME) MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, T)
#define MPSX_ACTIVATION_BACKWARD(NAME, ...)                                \
  struct NAME##_op {                                                       \
    template <typename C>                                                  \
    static C apply(C g, C x, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                       \
  MPSX_FOR_FLOAT(BACKWARD_KERNELS, NAME)
#include "elementwise/activation.def"
