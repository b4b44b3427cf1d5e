// Every function of special.def. Each is a call, in loops that are not vectorised: what it computes has branches, and
// as a part of six kernels it would be translated six times.
#include "elementwise/kernels.h"
#include "elementwise/special_bessel.h"
#include "elementwise/special_gamma.h"
#include "elementwise/special_normal.h"
#include "elementwise/special_polynomials.h"

inline float log_add(float a, float b) {
  if (isinf(a) && a == b) return a;
  return propagating_max(a, b) + log1p(precise::exp(-fabs(a - b)));
}
inline float log2_add(float a, float b) {
  if (isinf(a) && a == b) return a;
  return propagating_max(a, b) + log1p(precise::exp2(-fabs(a - b))) * M_LOG2E_F;
}

#define MPSX_SPECIAL(NAME, ...)                                             \
  __attribute__((noinline)) float NAME##_of(float x) { return __VA_ARGS__; } \
  struct NAME##_op {                                                        \
    template <typename C>                                                   \
    static C apply(C x, Scalars<C>) { return NAME##_of(x); }                \
  };                                                                        \
  MPSX_FOR_FLOAT(MPSX_UNARY_KERNELS, NAME, SAME)
#define SPECIAL_KERNELS(T, TAG, NAME)                              \
  MPSX_KERNEL(#NAME "_dense_" #TAG, binary_dense<T, T, NAME##_op>) \
  MPSX_KERNEL(#NAME "_any_" #TAG, binary_any<T, T, NAME##_op>)
#define MPSX_SPECIAL_BINARY(NAME, OVERLOAD, PROMOTION, ...)                          \
  __attribute__((noinline)) float NAME##_of(float a, float b) { return __VA_ARGS__; } \
  struct NAME##_op {                                                                 \
    template <typename C>                                                            \
    static C apply(C a, C b, Scalars<C>) { return NAME##_of(a, b); }                 \
  };                                                                                 \
  MPSX_FOR_FLOAT(SPECIAL_KERNELS, NAME)
#include "elementwise/special.def"

// The order is a scalar argument.
struct polygamma_op {
  template <typename C>
  static C apply(C x, Scalars<C> s) { return polygamma_of(s.a, x); }
};
MPSX_FOR_FLOAT(MPSX_UNARY_KERNELS, polygamma, SAME)
