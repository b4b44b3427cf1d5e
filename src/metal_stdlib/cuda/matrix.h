// <metal_simdgroup_matrix> on tensor cores. An 8x8 matrix is distributed over the 32 lanes of a warp. Each lane holds
// two adjacent elements of a row, in row lane / 4 and from column lane % 4 * 2. This is the layout of mma.sync
// fragments (PTX ISA, "Matrix Fragments for mma.m16n8k8"). lanes.h renumbers the lanes, so that the elements match
// thread_elements() on Apple's GPUs.
#pragma once

namespace metal {
MPSX_FN uint mpsx_warp_lane() { return uint(__nvvm_read_ptx_sreg_laneid()); }
struct mpsx_element_position {
  uint row, column;
  explicit MPSX_FN mpsx_element_position(uint lane) : row(lane / 4), column(lane % 4 * 2) {}
};

// Tensor cores expect operand B to be transposed, so a matrix is loaded from memory in both orientations. The compiler
// removes unused loads.
template <class T, int C, int R>
struct simdgroup_matrix {
  static_assert(C == 8 && R == 8, "simdgroup_matrix has 8 columns and 8 rows");
  typedef vec<T, 2> storage_type;
  storage_type t;
  storage_type transposed;  // this lane's elements of the transposed matrix; valid if `both`
  bool both = false;
  simdgroup_matrix() = default;
  // Creates a matrix with `diagonal` on the diagonal and zeros elsewhere.
  explicit MPSX_FN simdgroup_matrix(T diagonal) : t(T(0)) {
    const mpsx_element_position at(mpsx_warp_lane());
    for (uint k = 0; k < 2; ++k) t[int(k)] = at.row == at.column + k ? diagonal : T(0);
  }
  MPSX_FN storage_type& thread_elements() {
    both = false;
    return t;
  }
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
MPSX_FN simdgroup_matrix<T, C, R> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, C, R>(value);
}

// Returns the offset in memory of this lane's element k. `transpose` swaps rows and columns within the 8x8 block.
MPSX_FN ulong mpsx_element_offset(mpsx_element_position at, uint k, ulong row_elements, ulong2 origin, bool transpose) {
  const uint row = transpose ? at.column + k : at.row, column = transpose ? at.row : at.column + k;
  return (origin.y + row) * row_elements + origin.x + column;
}
template <class T, class P, int C, int R>
MPSX_FN void simdgroup_load(simdgroup_matrix<T, C, R>& m, const P* source, ulong row_elements = 8,
                            ulong2 origin = ulong2(0), bool transpose = false) {
  const mpsx_element_position at(mpsx_warp_lane());
#pragma unroll
  for (uint k = 0; k < 2; ++k) {
    m.t[int(k)] = source[mpsx_element_offset(at, k, row_elements, origin, transpose)];
    m.transposed[int(k)] = source[mpsx_element_offset(at, k, row_elements, origin, !transpose)];
  }
  m.both = true;
}
template <class T, class P, int C, int R>
MPSX_FN void simdgroup_store(const simdgroup_matrix<T, C, R>& m, P* target, ulong row_elements = 8,
                             ulong2 origin = ulong2(0), bool transpose = false) {
  const mpsx_element_position at(mpsx_warp_lane());
#pragma unroll
  for (uint k = 0; k < 2; ++k) target[mpsx_element_offset(at, k, row_elements, origin, transpose)] = m.t[int(k)];
}

// Transposes a fragment of 16-bit elements.
MPSX_FN uint mpsx_transposed(uint fragment) {
  uint r;
  __asm__("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(fragment));
  return r;
}
MPSX_FN uint mpsx_pair(uint low, uint high) { return (low & 0xffffu) | high << 16; }
// Packs two half or bfloat elements of a fragment into one word.
template <class T>
MPSX_FN uint mpsx_word(const vec<T, 2>& v) {
  return mpsx_pair(as_type<ushort>(T(v[0])), as_type<ushort>(T(v[1])));
}
// Transposes a fragment of floats: first the low 16 bits of each element, then the high 16 bits.
MPSX_FN float2 mpsx_transposed(float2 v) {
  const uint x = as_type<uint>(float(v[0])), y = as_type<uint>(float(v[1]));
  const uint low = mpsx_transposed(mpsx_pair(x, y)), high = mpsx_transposed(mpsx_pair(x >> 16, y >> 16));
  return float2(as_type<float>(mpsx_pair(low, high)), as_type<float>(mpsx_pair(low >> 16, high >> 16)));
}

// Computes a * b + c for one 8x8 block, using a pseudo-instruction. python/mpsx/msl/tensor_cores.py merges several of
// these into one mma.sync with M = 16 and K = 16 or 8.
#define MPSX_MMA(TYPE)                                             \
  MPSX_FN float2 mpsx_mma_##TYPE(uint a, uint b, float2 c) {       \
    float x, y;                                                    \
    __asm__("mpsx.mma." #TYPE " {%0, %1}, {%2}, {%3}, {%4, %5};"   \
            : "=f"(x), "=f"(y)                                     \
            : "r"(a), "r"(b), "f"(float(c[0])), "f"(float(c[1]))); \
    return float2(x, y);                                           \
  }
MPSX_MMA(f16)
MPSX_MMA(bf16)
#undef MPSX_MMA
MPSX_FN float2 mpsx_mma_tf32(float2 a, float2 b, float2 c) {
  float x, y;
  __asm__("mpsx.mma.tf32 {%0, %1}, {%2, %3}, {%4, %5}, {%6, %7};"
          : "=f"(x), "=f"(y)
          : "r"(as_type<uint>(float(a[0]))), "r"(as_type<uint>(float(a[1]))), "r"(as_type<uint>(float(b[0]))),
            "r"(as_type<uint>(float(b[1]))), "f"(float(c[0])), "f"(float(c[1])));
  return float2(x, y);
}

// Splits a float into parts with 11 significant bits each, the precision of tf32. `crossed` is the part that is
// multiplied by the low part of the other operand. It equals the high part, except for NaN, infinity, and values whose
// rounding overflows. For those, `low` and `crossed` are zero, because infinity times zero would yield NaN.
struct mpsx_split_float {
  float high, low, crossed;
  explicit MPSX_FN mpsx_split_float(float v) {
    const float rounded = as_type<float>((as_type<uint>(v) + 0x1000u) & 0xffffe000u);
    const bool finite = __builtin_fabsf(rounded) < INFINITY;
    high = finite ? rounded : v;
    crossed = finite ? rounded : 0.0f;
    low = as_type<float>(as_type<uint>(finite ? v - rounded : 0.0f) + 0x1000u);
  }
};
// Multiplies with the accuracy of float32, using three tf32 products. Their sum is added to c separately, because
// tensor cores truncate when they add.
MPSX_FN float2 mpsx_mma_float(float2 a, float2 b, float2 c) {
  const mpsx_split_float a0(a[0]), a1(a[1]), b0(b[0]), b1(b[1]);
  float2 sum = mpsx_mma_tf32(float2(a0.low, a1.low), float2(b0.crossed, b1.crossed), float2(0.0f));
  sum = mpsx_mma_tf32(float2(a0.crossed, a1.crossed), float2(b0.low, b1.low), sum);
  return c + mpsx_mma_tf32(float2(a0.high, a1.high), float2(b0.high, b1.high), sum);
}

template <class T>
MPSX_FN float2 mpsx_floats(const vec<T, 2>& v) {
  return float2(float(v[0]), float(v[1]));
}
template <class B>
MPSX_FN uint mpsx_b_word(const simdgroup_matrix<B, 8, 8>& b) {
  if (b.both) return mpsx_word(b.transposed);
  return mpsx_transposed(mpsx_word(b.t));
}
template <class B>
MPSX_FN float2 mpsx_b_floats(const simdgroup_matrix<B, 8, 8>& b) {
  if (b.both) return mpsx_floats(b.transposed);
  return mpsx_transposed(mpsx_floats(b.t));
}
template <class D, class A, class B>
MPSX_FN void mpsx_matrix_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                 const simdgroup_matrix<B, 8, 8>& b, float2 c) {
  float2 sum;
  if constexpr (is_same_v<A, half> && is_same_v<B, half>)
    sum = mpsx_mma_f16(mpsx_word(a.t), mpsx_b_word(b), c);
  else if constexpr (is_same_v<A, bfloat> && is_same_v<B, bfloat>)
    sum = mpsx_mma_bf16(mpsx_word(a.t), mpsx_b_word(b), c);
  else
    sum = mpsx_mma_float(mpsx_floats(a.t), mpsx_b_floats(b), c);
  d.t = vec<D, 2>(D(sum[0]), D(sum[1]));
  d.both = false;
}
template <class D, class A, class B, class E>
MPSX_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                           const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<E, 8, 8>& c) {
  mpsx_matrix_multiply(d, a, b, mpsx_floats(c.t));
}
template <class D, class A, class B>
MPSX_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                const simdgroup_matrix<B, 8, 8>& b) {
  mpsx_matrix_multiply(d, a, b, float2(0.0f));
}
template <class T>
MPSX_FN simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}  // namespace metal
