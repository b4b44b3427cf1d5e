// The functions of metal/lib/multiply_pixels.h, each with one pipeline of loads for all products. TMA loads the boxes.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
template <matmul2d_descriptor D, class Scope, class A, class B, class Walk, int N>
MPSX_FN void warpgroup_multiply_pixels(const A& left, const B& right, Walk walk, int thread, int tiles,
                                       float (&sums)[N]) {
  typedef warpgroup_multiplier<D, Scope, typename A::value_type> M;
  const unsigned memory = staging_memory<Scope, M::shape::kBytes, M::shape::kMaxBytes>();
  with_blocks<M>(sums, [&](auto& block) __attribute__((always_inline)) {
    if (tiles > 0)
      M::run(left, right, walk, block, memory, M::shape::stages(), thread, tiles, false);
    else
      wait_for_previous_kernel();
  });
}
#endif

template <class Multiply, class Pixels, class Matrix, class Steps, class Memory, class Group, class C>
MPSX_FN void multiply_pixels(Multiply& multiply, const Pixels& left, const Matrix& right, const Steps& steps,
                             Memory memory, const Group& group, C& destination) {
#ifdef MPSX_SM90
  constexpr auto D = Multiply::descriptor;
  typedef typename Multiply::scope Scope;
  typedef decltype(step_operand(right, 0, 0, 0)) Operand;
  typedef tile_walk<Steps, 64> Walk;
  const Operand B = step_operand(right, 0, 0, right.width);
  if constexpr (uses_warpgroups<D, Scope, Operand, Operand>()) {
    add_to_destination<D, Scope>(destination, [&](int thread, auto& sums) __attribute__((always_inline)) {
      warpgroup_multiply_pixels<D, Scope>(left, B, Walk(steps), thread, Walk::tiles(steps), sums);
    });
    return;
  } else if constexpr (uses_tf32_warpgroups<D, Scope, Operand, Operand>()) {
    add_to_destination<D, Scope>(destination, [&](int thread, auto& sums) __attribute__((always_inline)) {
      tf32_warpgroup_multiply<D, Scope>(left, B, steps, thread, sums);
    });
    return;
  }
#endif
  multiply_pixels_in_turn(multiply, left, right, steps, memory, group, destination);
}

template <unsigned BM, unsigned BN, class Multiply, class Pixels, class Steps, class Memory, class Group, class C>
MPSX_FN void multiply_over_pixels(Multiply& multiply, const Pixels& left, const Pixels& right, const Steps& steps,
                                  Memory memory, const Group& group, C& destination) {
#ifdef MPSX_SM90
  constexpr auto D = Multiply::descriptor;
  typedef typename Multiply::scope Scope;
  typedef decltype(metal::tensor(left.data, metal::dextents<int, 2>(0, 0))) Operand;
  typedef pixel_walk<Steps> Walk;
  if constexpr (uses_warpgroups<D, Scope, Operand, Operand>()) {
    add_to_destination<D, Scope>(destination, [&](int thread, auto& sums) __attribute__((always_inline)) {
      warpgroup_multiply_pixels<D, Scope>(left, right, Walk(steps), thread, steps.count(), sums);
    });
    return;
  } else if constexpr (uses_tf32_warpgroups<D, Scope, Operand, Operand>()) {
    typedef tf32_multiplier<D, Scope> M;
    add_to_destination<D, Scope>(destination, [&](int thread, auto& sums) __attribute__((always_inline)) {
      const unsigned staging = staging_memory<Scope, M::kBytes>();
      if (steps.count() > 0) M::run(left, right, Walk(steps), sums, staging, thread, unsigned(steps.count()));
    });
    return;
  }
#endif
  multiply_over_pixels_in_turn<BM, BN>(multiply, left, right, steps, memory, group, destination);
}
}  // namespace mpsx
