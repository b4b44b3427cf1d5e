// <metal_simdgroup_matrix> on tensor cores: 8x8 matrices spread over the 32 lanes of a warp, two neighbours of a row
// each, where the fragments of mma.sync lie (PTX ISA, "Matrix Fragments for mma.m16n8k8"): row lane / 4, column lane %
// 4 * 2.
//
// Apple's GPUs hold row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2, which kernels that
// use thread_elements() count on. In a file with such a kernel matrices lie so, and each product moves them.
#pragma once

namespace metal {
MPSX_FN uint mpsx_lane_id() { return uint(__nvvm_read_ptx_sreg_laneid()); }
struct mpsx_cell {
  uint row, column;
#ifdef MPSX_THREAD_ELEMENTS
  explicit MPSX_FN mpsx_cell(uint lane)
      : row((lane / 4 & 4) + lane / 2 % 4), column((lane / 4 & 2) * 2 + lane % 2 * 2) {}
#else
  explicit MPSX_FN mpsx_cell(uint lane) : row(lane / 4), column(lane % 4 * 2) {}
#endif
};

// Another lane's value; all lanes of the warp take part.
MPSX_FN float mpsx_lane_value(float v, uint lane) {
  return as_type<float>(uint(__nvvm_shfl_sync_idx_i32(~0u, as_type<int>(v), int(lane), 31)));
}
// Between the two layouts: both swap the roles of the lane's bits 1 to 3.
MPSX_FN float2 mpsx_to_fragment(float2 v) {
#ifdef MPSX_THREAD_ELEMENTS
  const uint at = mpsx_lane_id(), from = (at & 17u) | (at >> 3 & 1u) << 2 | (at >> 2 & 1u) << 1 | (at >> 1 & 1u) << 3;
  return float2(mpsx_lane_value(v[0], from), mpsx_lane_value(v[1], from));
#else
  return v;
#endif
}
MPSX_FN float2 mpsx_from_fragment(float2 v) {
#ifdef MPSX_THREAD_ELEMENTS
  const uint at = mpsx_lane_id(), from = (at & 17u) | (at >> 2 & 1u) << 3 | (at >> 1 & 1u) << 2 | (at >> 3 & 1u) << 1;
  return float2(mpsx_lane_value(v[0], from), mpsx_lane_value(v[1], from));
#else
  return v;
#endif
}

template <class T, int C, int R>
struct simdgroup_matrix {
  static_assert(C == 8 && R == 8, "simdgroup_matrix has 8 columns and 8 rows");
  typedef vec<T, 2> storage_type;
  storage_type t;
  simdgroup_matrix() = default;
  // A diagonal matrix.
  explicit MPSX_FN simdgroup_matrix(T diagonal) : t(T(0)) {
    const mpsx_cell at(mpsx_lane_id());
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
MPSX_FN simdgroup_matrix<T, C, R> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, C, R>(value);
}

// Where element k of this lane lies in memory; `transpose` swaps rows and columns within the block.
MPSX_FN ulong mpsx_cell_offset(mpsx_cell at, uint k, ulong row_elements, ulong2 origin, bool transpose) {
  const uint row = transpose ? at.column + k : at.row, column = transpose ? at.row : at.column + k;
  return (origin.y + row) * row_elements + origin.x + column;
}
template <class T, class P, int C, int R>
MPSX_FN void simdgroup_load(simdgroup_matrix<T, C, R>& m, const P* source, ulong row_elements = 8,
                            ulong2 origin = ulong2(0), bool transpose = false) {
  const mpsx_cell at(mpsx_lane_id());
  for (uint k = 0; k < 2; ++k) m.t[int(k)] = source[mpsx_cell_offset(at, k, row_elements, origin, transpose)];
}
template <class T, class P, int C, int R>
MPSX_FN void simdgroup_store(const simdgroup_matrix<T, C, R>& m, P* target, ulong row_elements = 8,
                             ulong2 origin = ulong2(0), bool transpose = false) {
  const mpsx_cell at(mpsx_lane_id());
  for (uint k = 0; k < 2; ++k) target[mpsx_cell_offset(at, k, row_elements, origin, transpose)] = m.t[int(k)];
}

// A fragment of 16-bit elements, transposed.
MPSX_FN uint mpsx_transposed(uint fragment) {
  uint r;
  __asm__("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(fragment));
  return r;
}
MPSX_FN uint mpsx_pair(uint low, uint high) { return (low & 0xffffu) | high << 16; }
// The same of floats: their halves apart.
MPSX_FN float2 mpsx_transposed(float2 v) {
  const uint x = as_type<uint>(float(v[0])), y = as_type<uint>(float(v[1]));
  const uint low = mpsx_transposed(mpsx_pair(x, y)), high = mpsx_transposed(mpsx_pair(x >> 16, y >> 16));
  return float2(as_type<float>(mpsx_pair(low, high)), as_type<float>(mpsx_pair(low >> 16, high >> 16)));
}

// a * b + c of one block. The instructions have 16 rows, of which the lower eight are zero.
#define MPSX_MMA(NAME, TYPE)                                                                      \
  MPSX_FN float2 mpsx_mma_##NAME(uint a, uint b, float2 c) {                                      \
    float d[4];                                                                                   \
    __asm__("mma.sync.aligned.m16n8k8.row.col.f32." TYPE "." TYPE                                 \
            ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "                                             \
            "{%7, %8, %9, %10};"                                                                  \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                      \
            : "r"(a), "r"(0u), "r"(b), "f"(float(c[0])), "f"(float(c[1])), "f"(0.0f), "f"(0.0f)); \
    return float2(d[0], d[1]);                                                                    \
  }
MPSX_MMA(f16, "f16")
MPSX_MMA(bf16, "bf16")
#undef MPSX_MMA
// The sum over k does not mind which k goes where: the first four columns of the instruction's are the even ones here.
MPSX_FN float2 mpsx_mma_tf32(float2 a, float2 b, float2 c) {
  float d[4];
  __asm__(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(as_type<uint>(float(a[0]))), "r"(0u), "r"(as_type<uint>(float(a[1]))), "r"(0u),
        "r"(as_type<uint>(float(b[0]))), "r"(as_type<uint>(float(b[1]))), "f"(float(c[0])), "f"(float(c[1])), "f"(0.0f),
        "f"(0.0f));
  return float2(d[0], d[1]);
}

// Rounded to the 11 bits that a tensor core reads of a float.
MPSX_FN float mpsx_tf32(float v) {
  uint r;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return as_type<float>(r);
}
MPSX_FN float2 mpsx_tf32(float2 v) { return float2(mpsx_tf32(float(v[0])), mpsx_tf32(float(v[1]))); }
// Finite, and not rounded to an infinity.
MPSX_FN bool mpsx_all_finite(float2 v) {
  return (as_type<uint>(float(v[0])) & 0x7f800000u) < 0x7f000000u &&
         (as_type<uint>(float(v[1])) & 0x7f800000u) < 0x7f000000u;
}
// a * b, b transposed, by multiply-adds: for infinities and NaN, which the parts of a float below would not keep.
__attribute__((noinline)) static float2 mpsx_product_by_lane(float2 a, float2 b) {
  const uint lane = mpsx_lane_id(), row = lane & ~3u, column = lane % 4 * 8;
  float2 sum(0.0f);
  for (uint k = 0; k < 4; ++k)
    for (int i = 0; i < 2; ++i) {
      const float x = mpsx_lane_value(a[i], row + k);
      sum[0] = fma(x, mpsx_lane_value(b[i], column + k), sum[0]);
      sum[1] = fma(x, mpsx_lane_value(b[i], column + 4 + k), sum[1]);
    }
  return sum;
}
// A product to float32's accuracy out of three of numbers with 11 bits: what each leaves of a float is the next one's.
// The sum is ours to round, as the tensor core cuts off.
MPSX_FN float2 mpsx_float_product(float2 a, float2 b, float2 c) {
  b = mpsx_transposed(b);
  float2 sum;
  if (__nvvm_vote_all_sync(~0u, mpsx_all_finite(a) && mpsx_all_finite(b))) {
    const float2 a_high = mpsx_tf32(a), b_high = mpsx_tf32(b), none(0.0f);
    const float2 a_low = mpsx_tf32(a - a_high), b_low = mpsx_tf32(b - b_high);
    sum = mpsx_mma_tf32(a_low, b_high, mpsx_mma_tf32(a_high, b_low, none)) + mpsx_mma_tf32(a_high, b_high, none);
  } else {
    sum = mpsx_product_by_lane(a, b);
  }
  return c + sum;
}

template <class T>
MPSX_FN float2 mpsx_floats(const vec<T, 2>& v) {
  return mpsx_to_fragment(float2(float(v[0]), float(v[1])));
}
// Two halves or bfloats of a fragment in one word.
template <class T>
MPSX_FN uint mpsx_word(const vec<T, 2>& v) {
#ifdef MPSX_THREAD_ELEMENTS
  const float2 moved = mpsx_floats(v);
  return mpsx_pair(as_type<ushort>(T(moved[0])), as_type<ushort>(T(moved[1])));
#else
  return mpsx_pair(as_type<ushort>(T(v[0])), as_type<ushort>(T(v[1])));
#endif
}
template <class D, class A, class B>
MPSX_FN void mpsx_matrix_product(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                 const simdgroup_matrix<B, 8, 8>& b, float2 c) {
  float2 sum;
  if constexpr (is_same_v<A, half> && is_same_v<B, half>)
    sum = mpsx_mma_f16(mpsx_word(a.t), mpsx_transposed(mpsx_word(b.t)), c);
  else if constexpr (is_same_v<A, bfloat> && is_same_v<B, bfloat>)
    sum = mpsx_mma_bf16(mpsx_word(a.t), mpsx_transposed(mpsx_word(b.t)), c);
  else
    sum = mpsx_float_product(mpsx_floats(a.t), mpsx_floats(b.t), c);
  sum = mpsx_from_fragment(sum);
  d.t = vec<D, 2>(D(sum[0]), D(sum[1]));
}
template <class D, class A, class B, class E>
MPSX_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                           const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<E, 8, 8>& c) {
  mpsx_matrix_product(d, a, b, mpsx_floats(c.t));
}
template <class D, class A, class B>
MPSX_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                const simdgroup_matrix<B, 8, 8>& b) {
  mpsx_matrix_product(d, a, b, float2(0.0f));
}
template <class T>
MPSX_FN simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}  // namespace metal
