// Operators of three tensors.
#include "elementwise/kernels.h"
#include "lib/arithmetic.h"
#include "lib/math.h"

struct where_op {
  template <typename A, typename C>
  static C apply(A condition, C a, C b, Scalars<C>) { return condition ? a : b; }
};
// s.a is `value`. Products are rounded where PyTorch rounds them.
struct addcmul_op {
  template <typename A, typename C>
  static C apply(A x, C a, C b, Scalars<C> s) { return add_scaled(C(x), multiply(a, b), s.a); }
};
struct addcdiv_op {
  template <typename A, typename C>
  static C apply(A x, C a, C b, Scalars<C> s) { return C(x) + s.a * (a / b); }
};
// The form that is exact at both ends.
struct lerp_op {
  template <typename A, typename C>
  static C apply(A a, C b, C w, Scalars<C>) {
    return fabs(w) < C(0.5f) ? C(a) + w * (b - C(a)) : b - (b - C(a)) * (C(1.0f) - w);
  }
};
// The same with a weight that is a number: s.a.
struct lerp_number_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C> s) { return lerp_op::apply<C, C>(a, b, s.a, s); }
};
// What the second half of glu's input gets: of grad, the first half and itself.
struct glu_gate_backward_op {
  template <typename A, typename C>
  static C apply(A grad, C first, C x, Scalars<C>) {
    const C gate = sigmoid(x);
    return C(grad) * first * gate * (C(1.0f) - gate);
  }
};
struct clamp_op {
  template <typename A, typename C>
  static C apply(A x, C low, C high, Scalars<C>) { return propagating_min(propagating_max(C(x), low), high); }
};

// Numbers at both ends.
struct clamp_numbers_op {
  template <typename C>
  static C apply(C x, Scalars<C> s) { return between(x, s.a, s.b); }
};

#define WHERE(T, TAG, ...)                                              \
  MPSX_KERNEL("where_dense_" #TAG, ternary_dense<bool, T, where_op>)    \
  MPSX_KERNEL("where_any_" #TAG, ternary_any<bool, T, where_op>)
MPSX_FOR_ALL(WHERE, )

#define TERNARY(T, TAG, NAME)                                               \
  MPSX_KERNEL(#NAME "_dense_" #TAG, ternary_dense<T, T, NAME##_op>)         \
  MPSX_KERNEL(#NAME "_any_" #TAG, ternary_any<T, T, NAME##_op>)
MPSX_FOR_REAL(TERNARY, addcmul)
MPSX_FOR_FLOAT(TERNARY, addcdiv)
MPSX_FOR_FLOAT(TERNARY, lerp)
MPSX_FOR_FLOAT(TERNARY, glu_gate_backward)
#define LERP_NUMBER(T, TAG, ...)                                               \
  MPSX_KERNEL("lerp_number_dense_" #TAG, binary_dense<T, T, lerp_number_op>)   \
  MPSX_KERNEL("lerp_number_any_" #TAG, binary_any<T, T, lerp_number_op>)
MPSX_FOR_FLOAT(LERP_NUMBER, )
MPSX_FOR_REAL(TERNARY, clamp)
MPSX_FOR_REAL(MPSX_UNARY_KERNELS, clamp_numbers, SAME)
