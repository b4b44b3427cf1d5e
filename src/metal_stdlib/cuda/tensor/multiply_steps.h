// multiply_steps() of metal/lib/multiply_steps.h: one pipeline of loads for all products, and one tensor map for each
// matrix.
#pragma once

namespace mpsx {
template <class Multiply, class Matrix, class Steps, class C>
MPSX_FN void multiply_steps(Multiply& multiply, const Matrix& left, const Matrix& right, const Steps& steps,
                            C& destination) {
#ifdef MPSX_SM90
  constexpr auto D = Multiply::descriptor;
  typedef typename Multiply::scope Scope;
  typedef decltype(step_operand(left, 0, 0, 0)) Operand;
  if constexpr (uses_warpgroups<D, Scope, Operand, Operand>() || uses_tf32_warpgroups<D, Scope, Operand, Operand>()) {
    typedef typename accumulator_layout<D, Scope>::type L;
    static_assert(metal::is_same_v<L, typename destination_layout<D, Scope>::type>, "the sums need no exchange");
    const int thread = scope_thread<Scope>();
    const Operand A = step_operand(left, 0, 0, left.width), B = step_operand(right, 0, 0, right.width);
    float sums[L::kCapacity];
    load_destination<D, L>(destination, thread, sums);
    if constexpr (uses_warpgroups<D, Scope, Operand, Operand>())
      warpgroup_multiply_steps<D, Scope>(A, B, steps, thread, sums);
    else
      tf32_warpgroup_multiply<D, Scope>(A, B, steps, thread, sums);
    store_destination<L>(destination, thread, sums);
    return;
  }
#endif
  multiply_steps_in_turn(multiply, left, right, steps, destination);
}
}  // namespace mpsx
