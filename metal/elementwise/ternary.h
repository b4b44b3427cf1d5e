// Operators with three tensors.
#pragma once

#include "elementwise/fused.h"
#include "elementwise/scalars.h"
#include "lib/arithmetic.h"
#include "lib/math.h"

struct where_op {
  template <typename A, typename C>
  static C apply(A condition, C a, C b, Scalars<C>) { return condition ? a : b; }
};
// s.a is `value`. Like PyTorch's vectorized kernels, multiplies the first factor by s.a and uses fma. Both choices
// affect which results overflow.
struct addcmul_op {
  template <typename A, typename C>
  static C apply(A x, C a, C b, Scalars<C> s) { return add_fused(C(x), b, multiply(s.a, a)); }
};
struct addcdiv_op {
  template <typename A, typename C>
  static C apply(A x, C a, C b, Scalars<C> s) { return C(x) + s.a * a / b; }
};
// lerp is exact at weights 0 and 1. It overflows only if the result or b - a does.
struct lerp_op {
  template <typename A, typename C>
  static C apply(A a, C b, C w, Scalars<C>) {
    return fabs(w) < C(0.5f) ? fma(w, b - C(a), C(a)) : fma(w - C(1.0f), b - C(a), b);
  }
};
// lerp with a scalar weight, which is s.a.
struct lerp_number_op {
  template <typename C>
  static C apply(C a, C b, Scalars<C> s) { return lerp_op::apply<C, C>(a, b, s.a, s); }
};
// The gradient of the gate x in glu, the second half of the input.
struct glu_gate_backward_op {
  template <typename A, typename C>
  static C apply(A grad, C first, C x, Scalars<C>) {
    const C gate = sigmoid(x);
    // Multiply the small factors first, because first * grad may overflow.
    return (C(1.0f) - gate) * gate * first * C(grad);
  }
};
struct clamp_op {
  template <typename A, typename C>
  static C apply(A x, C low, C high, Scalars<C>) { return propagating_min(propagating_max(C(x), low), high); }
};

// clamp with two scalar bounds.
struct clamp_numbers_op {
  template <typename C>
  static C apply(C x, Scalars<C> s) { return between(x, s.a, s.b); }
};
