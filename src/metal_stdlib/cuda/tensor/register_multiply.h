// matmul2d of 16-bit operands with wgmma, where the left operand is a cooperative tensor or a staged tile. wgmma reads
// the left operand from registers or from the staged tile, and the right operand, a tensor in any memory, from a copy
// in shared memory.
#pragma once

namespace mpsx {
// Whether wgmma supports the operation: the scope must consist of complete warpgroups, each with its own rows, and k
// must be static.
template <matmul2d_descriptor D, class Scope, class A, class B>
constexpr bool uses_register_warpgroups() {
  typedef element_of_t<A> T;
  if constexpr (scope_size<Scope>::simdgroups == 0 || scope_size<Scope>::simdgroups % 4 != 0 || !is_tensor_v<B> ||
                (is_tensor_v<A> && !metal::is_same_v<A, staged_tile<T>>)) {
    return false;
  } else {
    typedef typename destination_layout<D, Scope>::type L;
    return metal::is_same_v<T, element_of_t<B>> && (is_half_type<T> || is_bfloat_type<T>) && !D.transpose_left &&
           D.m == 16 * scope_size<Scope>::simdgroups && L::kWarpColumns == 1 && is_wgmma_width(D.n) && D.k % 16 == 0 &&
           (D.transpose_right || D.n % 64 == 0);
  }
}

// The left operand in registers, which wgmma reads until the operation has finished.
template <int STEPS>
struct left_fragments {
  unsigned words[STEPS][4];
  MPSX_FN const unsigned (&step(int i) const)[4] { return words[i]; }
  MPSX_FN void keep() const {
#pragma unroll
    for (int i = 0; i < STEPS; ++i) keep_operand(words[i]);
  }
};
// The left operand in shared memory: a tile of 64 rows and K columns per warpgroup.
template <class T, int K>
struct left_tile {
  unsigned memory;
  MPSX_FN unsigned long step(int i) const { return right_operand<T, 64, K, true, 128>::descriptor(memory, i); }
  MPSX_FN void keep() const {}
};
template <matmul2d_descriptor D, class A>
MPSX_FN auto left_of(const A& left) {
  typedef element_of_t<A> T;
  if constexpr (is_tensor_v<A>) {
    return left_tile<T, D.k>{left.address};
  } else {
    left_fragments<D.k / 16> fragments;
#pragma unroll
    for (int step = 0; step < D.k / 16; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)  // a cooperative operand has the element order of wgmma's fragments (layout.h)
        __builtin_memcpy(&fragments.words[step][i], left.mpsx_elements() + step * 8 + i * 2, 4);
    return fragments;
  }
}

template <class T, int TRANSPOSE, int N>
MPSX_FN void start_wgmma(float (&sums)[N], const unsigned (&left)[4], unsigned long right, int add) {
  if constexpr (is_half_type<T>)
    wgmma_f16<TRANSPOSE>(sums, left, right, add);
  else
    wgmma_bf16<TRANSPOSE>(sums, left, right, add);
}
template <class T, int TRANSPOSE, int N>
MPSX_FN void start_wgmma(float (&sums)[N], unsigned long left, unsigned long right, int add) {
  if constexpr (is_half_type<T>)
    wgmma_f16<0, TRANSPOSE>(sums, left, right, add);
  else
    wgmma_bf16<0, TRANSPOSE>(sums, left, right, add);
}

// Starts computing sums = A B or sums += A B, where `memory` contains B. Nothing may access the sums before
// finish_register_multiply().
template <matmul2d_descriptor D, class Scope, class T, class A, int N>
MPSX_FN void issue_register_multiply(const A& left, unsigned memory, float (&sums)[N]) {
  typedef right_operand<T, D.n, D.k, D.transpose_right, scope_size<Scope>::threads> operand;
  // LLVM must not move writes to registers below the fence, which orders them before wgmma.
  if constexpr (D.mpsx_accumulates()) wgmma_hold(sums);
  left.keep();
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < D.k / 16; ++step) {
    const unsigned long b = operand::descriptor(memory, step);
    const int add = D.mpsx_accumulates() || step > 0;
    start_wgmma<T, !D.transpose_right>(sums, left.step(step), b, add);
  }
  wgmma_commit();
}
template <matmul2d_descriptor D, class Scope, class A, class T, int N>
MPSX_FN auto start_register_multiply(const A& left, const staged_tile<T>& right, float (&sums)[N]) {
  const auto running = left_of<D>(left);
  issue_register_multiply<D, Scope, T>(running, right.address, sums);
  return running;
}
// Waits until at most PENDING operations that started later are running.
template <int PENDING, class A, int N>
MPSX_FN void finish_register_multiply(const A& left, float (&sums)[N]) {
  wgmma_wait<PENDING>();
  wgmma_hold(sums);
  left.keep();
}

template <matmul2d_descriptor D, class Scope, class A, class B, int N>
MPSX_FN void register_multiply(const A& left, const B& right, int thread, float (&sums)[N]) {
  typedef element_of_t<A> T;
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
  const auto running = left_of<D>(left);
  issue_register_multiply<D, Scope, T>(running, memory, sums);
  finish_register_multiply<0>(running, sums);
}
}  // namespace mpsx
