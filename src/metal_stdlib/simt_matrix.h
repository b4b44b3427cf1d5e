// <metal_simdgroup_matrix>: 8x8 matrices distributed over the 32 lanes of a SIMD group (MSL specification 3.2, section
// 6.7). Each lane holds two adjacent elements of a row. The layout is that of Apple's GPUs: row = (lane / 4 & 4) + lane
// / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2. Kernels that use thread_elements() rely on it.
#pragma once

namespace metal {
struct mpsx_element_position {
  uint row, column;
  explicit MPSX_FN mpsx_element_position(uint lane)
      : row((lane / 4 & 4) + lane / 2 % 4), column((lane / 4 & 2) * 2 + lane % 2 * 2) {}
};
// Returns the lane that holds the element at (row, column). The element's index in that lane is column & 1.
MPSX_FN constexpr uint mpsx_element_lane(uint row, uint column) {
  return ((row & 4) | (column >> 2) << 1 | (row >> 1 & 1)) * 4 + ((row & 1) << 1 | (column >> 1 & 1));
}

template <class T, int C, int R>
struct simdgroup_matrix {
  static_assert(C == 8 && R == 8, "simdgroup_matrix has 8 columns and 8 rows");
  typedef vec<T, 2> storage_type;
  storage_type t;
  simdgroup_matrix() = default;
  // Creates a matrix with `diagonal` on the diagonal and zeros elsewhere.
  explicit MPSX_FN simdgroup_matrix(T diagonal, MPSX_CALL_SITE) : t(T(0)) {
    if (diagonal == T(0)) return;
    uint lane;
    mpsx_simd_active("simdgroup_matrix", mpsx_file, mpsx_line, lane);
    const mpsx_element_position at(lane);
    for (uint k = 0; k < 2; ++k) t[int(k)] = at.row == at.column + k ? diagonal : T(0);
  }
  MPSX_FN storage_type& thread_elements() { return t; }
  MPSX_FN const storage_type& thread_elements() const { return t; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int C, int R = C>
MPSX_FN simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, C, R> m;
  m.t = vec<T, 2>(value);
  return m;
}
template <class T, int C, int R = C>
MPSX_FN simdgroup_matrix<T, C, R> make_diagonal_simdgroup_matrix(T value, MPSX_CALL_SITE) {
  return simdgroup_matrix<T, C, R>(value, mpsx_file, mpsx_line);
}

// Returns the offset in memory of this lane's element k. `transpose` swaps rows and columns within the 8x8 block.
MPSX_FN ulong mpsx_element_offset(mpsx_element_position at, uint k, ulong row_elements, ulong2 origin, bool transpose) {
  const uint row = transpose ? at.column + k : at.row, column = transpose ? at.row : at.column + k;
  return (origin.y + row) * row_elements + origin.x + column;
}
// Loads, stores and multiplications are not inlined, because kernels unroll loops that contain hundreds of them.
template <class T, class P, int C, int R>
__attribute__((noinline)) static void simdgroup_load(simdgroup_matrix<T, C, R>& m, const P* source,
                                                     ulong row_elements = 8, ulong2 origin = ulong2(0),
                                                     bool transpose = false, MPSX_CALL_SITE) {
  uint lane;
  mpsx_simd_active("simdgroup_load", mpsx_file, mpsx_line, lane);
  const mpsx_element_position at(lane);
  for (uint k = 0; k < 2; ++k) m.t[int(k)] = source[mpsx_element_offset(at, k, row_elements, origin, transpose)];
}
template <class T, class P, int C, int R>
__attribute__((noinline)) static void simdgroup_store(const simdgroup_matrix<T, C, R>& m, P* target,
                                                      ulong row_elements = 8, ulong2 origin = ulong2(0),
                                                      bool transpose = false, MPSX_CALL_SITE) {
  uint lane;
  mpsx_simd_active("simdgroup_store", mpsx_file, mpsx_line, lane);
  const mpsx_element_position at(lane);
  for (uint k = 0; k < 2; ++k) target[mpsx_element_offset(at, k, row_elements, origin, transpose)] = m.t[int(k)];
}

template <class A, class B>
struct mpsx_operands {
  vec<A, 2> a;
  vec<B, 2> b;
};
// Computes this lane's two elements of a * b + start. Accumulates in float, over the columns of a from first to last.
template <class A, class B>
__attribute__((noinline)) static float2 mpsx_matrix_elements(vec<A, 2> a, vec<B, 2> b, float2 start, const char* name,
                                                          const char* mpsx_file, int mpsx_line) {
  const mpsx::lanes_of<mpsx_operands<A, B>> g(mpsx_operands<A, B>{a, b}, name, mpsx_file, mpsx_line);
  const mpsx_element_position at(g.lane);
  float2 sum = start;
  for (uint i = 0; i < 8; ++i) {
    const mpsx_operands<A, B> left = g.take(mpsx_element_lane(at.row, i));
    const mpsx_operands<A, B> right = g.take(mpsx_element_lane(i, at.column));
    const float x = float(left.a[int(i & 1)]);
    sum[0] = fma(x, float(right.b[0]), sum[0]);
    sum[1] = fma(x, float(right.b[1]), sum[1]);
  }
  return sum;
}
template <class D, class A, class B>
MPSX_FN void mpsx_matrix_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                 const simdgroup_matrix<B, 8, 8>& b, float2 start, const char* name,
                                 const char* mpsx_file, int mpsx_line) {
  const float2 sum = mpsx_matrix_elements(a.t, b.t, start, name, mpsx_file, mpsx_line);
  d.t = vec<D, 2>(D(sum[0]), D(sum[1]));
}
template <class D, class A, class B, class E>
MPSX_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                           const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<E, 8, 8>& c,
                                           MPSX_CALL_SITE) {
  const float2 start(float(c.t[0]), float(c.t[1]));
  mpsx_matrix_multiply(d, a, b, start, "simdgroup_multiply_accumulate", mpsx_file, mpsx_line);
}
template <class D, class A, class B>
MPSX_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                const simdgroup_matrix<B, 8, 8>& b, MPSX_CALL_SITE) {
  mpsx_matrix_multiply(d, a, b, float2(0.0f), "simdgroup_multiply", mpsx_file, mpsx_line);
}
template <class T>
MPSX_FN simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}  // namespace metal
