// matmul2d of 16-bit operands with wgmma, where the left operand is a cooperative tensor. wgmma reads the left operand
// from registers and the right operand, a tensor in any memory, from a copy in shared memory.
#pragma once

namespace mpsx {
// Whether wgmma supports the operation: the scope must consist of complete warpgroups, each with its own rows, and k
// must be static.
template <matmul2d_descriptor D, class Scope, class A, class B>
constexpr bool uses_register_warpgroups() {
  if constexpr (scope_size<Scope>::simdgroups == 0 || scope_size<Scope>::simdgroups % 4 != 0 || is_tensor_v<A> ||
                !is_tensor_v<B>) {
    return false;
  } else {
    typedef typename A::value_type T;
    typedef typename accumulator_layout<D, Scope>::type L;
    return metal::is_same_v<T, typename B::value_type> && (is_half_type<T> || is_bfloat_type<T>) && !D.transpose_left &&
           D.m == 16 * scope_size<Scope>::simdgroups && L::kWarpColumns == 1 && is_wgmma_width(D.n) && D.k % 16 == 0 &&
           (D.transpose_right || D.n % 64 == 0);
  }
}

// The registers of the left operand, which wgmma reads until the operation has finished.
template <int STEPS>
struct running_multiply {
  unsigned left[STEPS][4];
};
template <matmul2d_descriptor D, class A>
MPSX_FN running_multiply<D.k / 16> left_registers(const A& left) {
  running_multiply<D.k / 16> running;
#pragma unroll
  for (int step = 0; step < D.k / 16; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i)  // a cooperative operand has the element order of wgmma's fragments (layout.h)
      __builtin_memcpy(&running.left[step][i], left.mpsx_elements() + step * 8 + i * 2, 4);
  return running;
}

// Starts computing sums = A B or sums += A B, where `memory` contains B. Nothing may access the sums before
// finish_register_multiply().
template <matmul2d_descriptor D, class Scope, class T, int N>
MPSX_FN void issue_register_multiply(const running_multiply<D.k / 16>& running, unsigned memory, float (&sums)[N]) {
  typedef right_operand<T, D.n, D.k, D.transpose_right, scope_size<Scope>::threads> operand;
  // LLVM must not move writes to registers below the fence, which orders them before wgmma.
  if constexpr (D.mpsx_accumulates()) wgmma_hold(sums);
#pragma unroll
  for (int step = 0; step < D.k / 16; ++step) keep_operand(running.left[step]);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < D.k / 16; ++step) {
    const unsigned long b = operand::descriptor(memory, step);
    const int add = D.mpsx_accumulates() || step > 0;
    if constexpr (is_half_type<T>)
      wgmma_f16<!D.transpose_right>(sums, running.left[step], b, add);
    else
      wgmma_bf16<!D.transpose_right>(sums, running.left[step], b, add);
  }
  wgmma_commit();
}
template <matmul2d_descriptor D, class Scope, class A, class T, int N>
MPSX_FN running_multiply<D.k / 16> start_register_multiply(const A& left, const staged_tile<T>& right,
                                                           float (&sums)[N]) {
  const running_multiply<D.k / 16> running = left_registers<D>(left);
  issue_register_multiply<D, Scope, T>(running, right.address, sums);
  return running;
}
// Waits until at most PENDING operations that started later are running.
template <int PENDING, int STEPS, int N>
MPSX_FN void finish_register_multiply(const running_multiply<STEPS>& running, float (&sums)[N]) {
  wgmma_wait<PENDING>();
  wgmma_hold(sums);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) keep_operand(running.left[step]);
}

template <matmul2d_descriptor D, class Scope, class A, class B, int N>
MPSX_FN void register_multiply(const A& left, const B& right, int thread, float (&sums)[N]) {
  typedef typename A::value_type T;
  typedef right_operand<T, D.n, D.k, D.transpose_right, scope_size<Scope>::threads> operand;
  unsigned memory;
  if constexpr (metal::is_same_v<B, staged_tile<T>>) {
    memory = right.address;
  } else {
    memory = staging_memory<Scope, operand::kBytes>();
    scope_barrier<Scope>();  // wait, because other operations may still use this memory
    operand::copy(right, memory, thread);
    fence_async_proxy();
    scope_barrier<Scope>();
  }
  const auto running = left_registers<D>(left);
  issue_register_multiply<D, Scope, T>(running, memory, sums);
  finish_register_multiply<0>(running, sums);
}
}  // namespace mpsx
