// Every operator of unary.def.
#include "elementwise/kernels.h"
#include "lib/arithmetic.h"
#include "lib/math.h"

// The sign of half and bfloat is a bit.
struct neg_op;
struct abs_op;
#define MPSX_SIGN(T, OP, ...)                                                  \
  template <> struct UnaryOf<OP, T, T> {                                       \
    static T apply(T x, constant ScalarParams&) {                              \
      const ushort bits = as_type<ushort>(x);                                  \
      return as_type<T>(ushort(__VA_ARGS__));                                  \
    }                                                                          \
  };
MPSX_SIGN(half, neg_op, bits ^ 0x8000u)
MPSX_SIGN(bfloat, neg_op, bits ^ 0x8000u)
MPSX_SIGN(half, abs_op, bits & 0x7fffu)
MPSX_SIGN(bfloat, abs_op, bits & 0x7fffu)

#define MPSX_UNARY(NAME, TYPES, RESULT, ...)                            \
  struct NAME##_op {                                                    \
    template <typename C>                                               \
    static auto apply(C x, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                    \
  MPSX_FOR_##TYPES(MPSX_UNARY_KERNELS, NAME, RESULT)
#include "elementwise/unary.def"
