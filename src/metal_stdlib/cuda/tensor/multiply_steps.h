// multiply_steps() of metal/lib/multiply_steps.h: one pipeline of loads for all products, and one tensor map for each
// matrix.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
// Calls f(thread, sums) with the elements of `destination`, which f adds to.
template <matmul2d_descriptor D, class Scope, class C, class F>
MPSX_FN void add_to_destination(C& destination, F f) {
  typedef typename destination_layout<D, Scope>::type L;
  const int thread = scope_thread<Scope>();
  float sums[L::kCapacity];
  load_destination<D, L>(destination, thread, sums);
  f(thread, sums);
  store_destination<L>(destination, thread, sums);
}
#endif

template <class Multiply, class Matrix, class Steps, class C>
MPSX_FN void multiply_steps(Multiply& multiply, const Matrix& left, const Matrix& right, const Steps& steps,
                            C& destination) {
#ifdef MPSX_SM90
  constexpr auto D = Multiply::descriptor;
  typedef typename Multiply::scope Scope;
  typedef decltype(step_operand(left, 0, 0, 0)) Operand;
  if constexpr (uses_warpgroups<D, Scope, Operand, Operand>() || uses_tf32_warpgroups<D, Scope, Operand, Operand>()) {
    const Operand A = step_operand(left, 0, 0, left.width), B = step_operand(right, 0, 0, right.width);
    add_to_destination<D, Scope>(destination, [&](int thread, auto& sums) __attribute__((always_inline)) {
      if constexpr (uses_warpgroups<D, Scope, Operand, Operand>())
        warpgroup_multiply_steps<D, Scope>(A, B, steps, thread, sums);
      else
        tf32_warpgroup_multiply<D, Scope>(A, B, steps, thread, sums);
    });
    return;
  }
#endif
  multiply_steps_in_turn(multiply, left, right, steps, destination);
}
}  // namespace mpsx
