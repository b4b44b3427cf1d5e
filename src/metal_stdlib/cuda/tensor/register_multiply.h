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

template <matmul2d_descriptor D, class Scope, class A, class B, int N>
MPSX_FN void register_multiply(const A& left, const B& right, int thread, float (&sums)[N]) {
  typedef typename A::value_type T;
  typedef right_operand<T, D.n, D.k, D.transpose_right, scope_size<Scope>::threads> operand;
  constexpr int kSteps = D.k / 16;
  constexpr bool kIsStaged = metal::is_same_v<B, staged_tile<T>>;
  unsigned memory;
  if constexpr (kIsStaged) {
    memory = right.address;
  } else {
    memory = staging_memory<Scope, operand::kBytes>();
    scope_barrier<Scope>();  // wait, because other operations may still use this memory
    operand::copy(right, memory, thread);
    fence_async_proxy();
  }
  unsigned a[kSteps][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = step * 8 + i * 2;  // a cooperative operand has the element order of wgmma's fragments (layout.h)
      a[step][i] = unsigned(metal::as_type<metal::ushort>(T(left[at]))) |
                   unsigned(metal::as_type<metal::ushort>(T(left[at + 1]))) << 16;
    }
  if constexpr (!kIsStaged) scope_barrier<Scope>();
  // LLVM must not move writes to registers below the fence, which orders them before wgmma.
  wgmma_hold(sums);
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) __asm__ volatile("" : "+r"(a[step][i]));
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const unsigned long b = operand::descriptor(memory, step);
    const int add = D.mpsx_accumulates() || step > 0;
    if constexpr (is_half_type<T>)
      wgmma_f16<!D.transpose_right>(sums, a[step], b, add);
    else
      wgmma_bf16<!D.transpose_right>(sums, a[step], b, add);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(sums);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) keep_operand(a[step]);
}
}  // namespace mpsx
