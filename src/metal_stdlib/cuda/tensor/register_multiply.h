// matmul2d of 16-bit operands with wgmma, where the left operand is a cooperative tensor. wgmma reads it from
// registers, and the right operand, a tensor in any memory, from a copy in shared memory.
#pragma once

namespace mpsx {
// The copy of the right operand: `rows` rows of 128 bytes per box of 64 elements, with the 128-byte swizzle of tile.h.
// With K_MAJOR, a row is a column of the operation, contiguous along k. Otherwise a row is a step of k.
template <class T, int N, int K, bool K_MAJOR, int THREADS>
struct right_operand {
  static constexpr int kRows = K_MAJOR ? N : K, kRowChunks = (K_MAJOR ? K : N) / 8;  // chunks of 8 elements
  static constexpr int kBoxes = (kRowChunks + 7) / 8, kChunks = kRows * kRowChunks;
  static constexpr unsigned kBoxBytes = unsigned(kRows) * 128, kBytes = kBoxBytes * unsigned(kBoxes);

  // Returns the matrix descriptor of 16 steps of k.
  static MPSX_FN unsigned long descriptor(unsigned memory, int step) {
    return K_MAJOR ? matrix_descriptor(memory + unsigned(step / 4) * kBoxBytes + unsigned(step % 4) * 32, 16, 1024)
                   : matrix_descriptor(memory + unsigned(step) * 2048, kBoxBytes, 1024);
  }
  // All threads of the scope must call this. Elements outside the extents are zero.
  template <class X>
  static MPSX_FN void copy(const X& source, unsigned memory, int thread) {
    const int columns = int(source.get_extent(0)), rows = int(source.get_extent(1));
    const bool aligned = source.get_stride(0) == 1 && long(source.get_stride(1)) * long(sizeof(T)) % 16 == 0 &&
                         (unsigned long)source.mpsx_data() % 16 == 0;
#pragma unroll
    for (int i = 0; i < (kChunks + THREADS - 1) / THREADS; ++i) {
      const int at = i * THREADS + thread, row = at / kRowChunks, chunk = at % kRowChunks;
      if (kChunks % THREADS != 0 && at >= kChunks) break;
      const T* const from = source.mpsx_data() + long(row) * long(source.get_stride(1));
      word4 words = {0, 0, 0, 0};
      if (aligned && chunk * 8 + 8 <= columns && row < rows)
        words = *(const word4*)(from + chunk * 8);
      else if (row < rows)
        words = gather(from + long(chunk) * 8 * long(source.get_stride(0)), long(source.get_stride(0)),
                       columns - chunk * 8);
      store_shared(
          memory + unsigned(chunk / 8) * kBoxBytes + unsigned(row) * 128 + unsigned((chunk % 8 ^ (row & 7)) << 4),
          words);
    }
  }

 private:
  static MPSX_FN word4 gather(const T* from, long stride, int count) {
    word4 words = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < count) words[e / 2] |= unsigned(metal::as_type<metal::ushort>(T(from[e * stride]))) << (e % 2 * 16);
    return words;
  }
};

// Whether wgmma supports the operation: complete warpgroups, each with its own rows, and a static k.
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
  const unsigned memory = staging_memory<Scope, operand::kBytes>();
  scope_barrier<Scope>();  // wait, because other operations may still use this memory
  operand::copy(right, memory, thread);
  fence_async_proxy();
  unsigned a[kSteps][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = step * 8 + i * 2;  // a cooperative operand has the order of wgmma's fragments (layout.h)
      a[step][i] = unsigned(metal::as_type<metal::ushort>(T(left[at]))) |
                   unsigned(metal::as_type<metal::ushort>(T(left[at + 1]))) << 16;
    }
  scope_barrier<Scope>();
  // The fence orders earlier writes to registers before wgmma, so LLVM must not move any of them below it.
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
