// Multiplies fragments of a single SIMD group (fragment_layout in tensor/layout.h) with mma.sync, in registers.
//
// A lane holds rows r(g) and r(g) + 8 of a 16x16 fragment and, in each row, columns 4q to 4q + 3. Here g = lane / 4, q
// = lane % 4, and r(g) = 0, 1, 4, 5, 2, 3, 6, 7 for g = 0 to 7 (scope.h). mma.sync expects rows g and g + 8 and, in
// each row, the pairs of columns that start at 2q and 2q + 8. The pairs that start at 4q and 4q + 2 are used instead,
// because the order of k does not affect the result. Along n, the order does matter, so lanes whose indices differ by
// 16 exchange rows of B.
#pragma once

namespace mpsx {
// Four words with two 16-bit elements each: the columns from 4q and from 4q + 2 of row r(g), and then the same columns
// of row r(g) + 8.
struct fragment16 {
  unsigned word[4];
};
template <class T>
MPSX_FN fragment16 pack_fragment(const T* elements) {
  fragment16 f;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    f.word[i] = unsigned(metal::as_type<metal::ushort>(T(elements[i * 2]))) |
                unsigned(metal::as_type<metal::ushort>(T(elements[i * 2 + 1]))) << 16;
  return f;
}
// exchange_rows() moves rows 0, 1, 4, 5, 8, 9, 12, 13 to words 0 and 1, in the order of g, and rows 2, 3, 6, 7, 10, 11,
// 14, 15 to words 2 and 3. restore_rows() does the inverse.
#ifndef MPSX_THREAD_ELEMENTS
MPSX_FN fragment16 exchange_rows(const fragment16& f) {
  const bool high = unsigned(__nvvm_read_ptx_sreg_tid_x()) & 16u;
  const unsigned x = shuffle_xor(high ? f.word[0] : f.word[2], 16), y = shuffle_xor(high ? f.word[1] : f.word[3], 16);
  return high ? fragment16{{x, y, f.word[2], f.word[3]}} : fragment16{{f.word[0], f.word[1], x, y}};
}
MPSX_FN fragment16 restore_rows(const fragment16& f) { return exchange_rows(f); }
#else  // here r(g) == g
// Copies two words of lane 4g + q to `row`: words 2 and 3 if `second`, otherwise words 0 and 1.
MPSX_FN void take_row(const fragment16& f, unsigned g, bool second, unsigned (&row)[2]) {
  const int source = int(g * 4 + unsigned(__nvvm_read_ptx_sreg_tid_x()) % 4u);
#  pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned a = unsigned(__nvvm_shfl_sync_idx_i32(~0u, int(f.word[i]), source, 31));
    const unsigned b = unsigned(__nvvm_shfl_sync_idx_i32(~0u, int(f.word[2 + i]), source, 31));
    row[i] = second ? b : a;
  }
}
MPSX_FN fragment16 exchange_rows(const fragment16& f) {
  const unsigned g = unsigned(__nvvm_read_ptx_sreg_tid_x()) / 4u % 8u, n = g / 2 * 4 + g % 2;
  unsigned x[2], y[2];
  take_row(f, n % 8, n >= 8, x), take_row(f, (n + 2) % 8, n >= 8, y);
  return {{x[0], x[1], y[0], y[1]}};
}
MPSX_FN fragment16 restore_rows(const fragment16& f) {
  const unsigned g = unsigned(__nvvm_read_ptx_sreg_tid_x()) / 4u % 8u, source = g / 4 * 2 + g % 2;
  unsigned x[2], y[2];
  take_row(f, source, g / 2 % 2, x), take_row(f, source + 4, g / 2 % 2, y);
  return {{x[0], x[1], y[0], y[1]}};
}
#endif
// Returns the transposed fragment, whose rows are in the order that exchange_rows() produces.
MPSX_FN fragment16 transpose_rows(const fragment16& f) {
  const fragment16 r = exchange_rows(f);
  return {{metal::mpsx_transposed(r.word[0]), metal::mpsx_transposed(r.word[2]), metal::mpsx_transposed(r.word[1]),
           metal::mpsx_transposed(r.word[3])}};
}

// Adds the product of a fragment of A, as mma.sync expects it, and one of B to a fragment of the sums.
template <class T>
MPSX_FN void multiply_fragment(const unsigned (&a)[4], const fragment16& b, float* sums) {
  typedef metal::conditional_t<is_half_type<T>, f16_operands, bf16_operands> O;
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {  // columns 4q + 2 * pair and 4q + 2 * pair + 1
    float* const d = sums + pair * 2;
    float block[4] = {d[0], d[1], d[4], d[5]};
    const unsigned columns[2] = {b.word[pair * 2], b.word[pair * 2 + 1]};
    mma(O(), block, a, columns);
    d[0] = block[0], d[1] = block[1], d[4] = block[2], d[5] = block[3];
  }
}
// Adds A B to the sums. `left`, `right`, and `sums` are a lane's elements. The fragments of A, B, and the sums are each
// in row-major order.
template <matmul2d_descriptor D, class T>
MPSX_FN void multiply_fragments(const T* left, const T* right, float* sums) {
  constexpr int M = D.m / 16, N = D.n / 16, K = D.k / 16;  // numbers of fragments
#pragma unroll
  for (int k = 0; k < K; ++k) {
    unsigned a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      fragment16 f = pack_fragment(left + (m * K + k) * 8);
      if constexpr (D.transpose_left) f = restore_rows(transpose_rows(f));
      a[m][0] = f.word[0], a[m][1] = f.word[2], a[m][2] = f.word[1], a[m][3] = f.word[3];
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const fragment16 f = pack_fragment(right + (k * N + n) * 8);
      const fragment16 b = D.transpose_right ? exchange_rows(f) : transpose_rows(f);
#pragma unroll
      for (int m = 0; m < M; ++m) multiply_fragment<T>(a[m], b, sums + (m * N + n) * 8);
    }
  }
}

// Whether multiply_fragments() multiplies the operands. If one is in memory, warp_multiply() does.
template <matmul2d_descriptor D, class Scope, class A, class B>
constexpr bool uses_fragments() {
  typedef element_of_t<A> T;
  return has_fragments<D.m, D.n, Scope> && D.k % 16 == 0 && is_cooperative_v<A> && is_cooperative_v<B> &&
         metal::is_same_v<T, element_of_t<B>> && (is_half_type<T> || is_bfloat_type<T>);
}
}  // namespace mpsx
