// AIR's intrinsics for SIMD groups, quad groups, barriers and simdgroup_matrix.
#pragma once

MPSX_AIR void mpsx_air_wg_barrier(unsigned flags) { mpsx_simt_threadgroup_barrier(flags, MPSX_AIR_SITE); }
MPSX_AIR void mpsx_air_simdgroup_barrier(unsigned flags) { mpsx_simt_simdgroup_barrier(flags, MPSX_AIR_SITE); }

#define MPSX_AIR_LANES(TAG, T, F)                                                              \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##F##_##TAG(mpsx::air_t<T> x) {                             \
    return mpsx::air_pass<T>(metal::F(mpsx::air_get<T>(x), MPSX_AIR_SITE));                    \
  }
#define MPSX_AIR_TAKE(TAG, T, F)                                                               \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##F##_##TAG(mpsx::air_t<T> x, unsigned n) {                 \
    return mpsx::air_pass<T>(metal::F(mpsx::air_get<T>(x), metal::ushort(n), MPSX_AIR_SITE));  \
  }
#define MPSX_AIR_FILL(TAG, T, F)                                                                                    \
  MPSX_AIR mpsx::air_t<T> mpsx_air_##F##_##TAG(mpsx::air_t<T> x, mpsx::air_t<T> fill, unsigned n, unsigned modulo) { \
    return mpsx::air_pass<T>(metal::F(mpsx::air_get<T>(x), mpsx::air_get<T>(fill), metal::ushort(n),                \
                                      metal::ushort(modulo), MPSX_AIR_SITE));                                       \
  }
#define MPSX_AIR_GROUP(GROUP)                                                \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_sum)                              \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_product)                          \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_max)                              \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_min)                              \
  MPSX_AIR_INTEGERS(MPSX_AIR_LANES, GROUP##_and)                             \
  MPSX_AIR_INTEGERS(MPSX_AIR_LANES, GROUP##_or)                              \
  MPSX_AIR_INTEGERS(MPSX_AIR_LANES, GROUP##_xor)                             \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_prefix_inclusive_sum)             \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_prefix_inclusive_product)         \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_prefix_exclusive_sum)             \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_prefix_exclusive_product)         \
  MPSX_AIR_NUMBERS(MPSX_AIR_LANES, GROUP##_broadcast_first)                  \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_broadcast)                         \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle)                           \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle_xor)                       \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle_up)                        \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle_down)                      \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle_rotate_up)                 \
  MPSX_AIR_NUMBERS(MPSX_AIR_TAKE, GROUP##_shuffle_rotate_down)               \
  MPSX_AIR_NUMBERS(MPSX_AIR_FILL, GROUP##_shuffle_and_fill_up)               \
  MPSX_AIR_NUMBERS(MPSX_AIR_FILL, GROUP##_shuffle_and_fill_down)             \
  MPSX_AIR unsigned mpsx_air_##GROUP##_any(unsigned x) { return metal::GROUP##_any(x & 1, MPSX_AIR_SITE); } \
  MPSX_AIR unsigned mpsx_air_##GROUP##_all(unsigned x) { return metal::GROUP##_all(x & 1, MPSX_AIR_SITE); } \
  MPSX_AIR unsigned mpsx_air_##GROUP##_is_first() { return metal::GROUP##_is_first(MPSX_AIR_SITE); }        \
  MPSX_AIR unsigned long mpsx_air_##GROUP##_ballot(unsigned x) {                                             \
    return (unsigned long)metal::GROUP##_vote::vote_t(metal::GROUP##_ballot(x & 1, MPSX_AIR_SITE));          \
  }                                                                                                          \
  MPSX_AIR unsigned long mpsx_air_##GROUP##_active_threads_mask() {                                          \
    return (unsigned long)metal::GROUP##_vote::vote_t(metal::GROUP##_active_threads_mask(MPSX_AIR_SITE));    \
  }
MPSX_AIR_GROUP(simd)
MPSX_AIR_GROUP(quad)
MPSX_AIR unsigned mpsx_air_get_simdgroup_size() { return MPSX_SIMD_WIDTH; }

// simdgroup_matrix. In AIR, a matrix is a vector of 64 elements. A lane uses only the first two. This runtime passes
// matrices in memory, because the calling convention for vectors depends on the CPU.
namespace mpsx {
template <class T>
using air_matrix = metal::simdgroup_matrix<T, 8, 8>;
// Returns the offset in memory of this lane's element k. The matrix has one stride for columns and one for rows.
MPSX_FN unsigned long air_offset(metal::uint lane, unsigned k, unsigned long start, unsigned long column_stride,
                                 unsigned long row_stride) {
  const metal::mpsx_element_position at(lane);
  return start + (at.column + k) * column_stride + at.row * row_stride;
}
}  // namespace mpsx
#define MPSX_AIR_MATRIX(TAG, T, ...)                                                                                 \
  MPSX_AIR void mpsx_air_matrix_load_##TAG(T* to, const T* from, unsigned long start,                                \
                                           unsigned long column_stride, unsigned long row_stride) {                  \
    metal::uint lane;                                                                                                \
    metal::mpsx_simd_active("simdgroup_load", MPSX_AIR_SITE, lane);                                                  \
    for (unsigned k = 0; k < 2; ++k) to[k] = from[mpsx::air_offset(lane, k, start, column_stride, row_stride)];      \
  }                                                                                                                  \
  MPSX_AIR void mpsx_air_matrix_store_##TAG(const T* from, T* to, unsigned long start,                               \
                                            unsigned long column_stride, unsigned long row_stride) {                 \
    metal::uint lane;                                                                                                \
    metal::mpsx_simd_active("simdgroup_store", MPSX_AIR_SITE, lane);                                                 \
    for (unsigned k = 0; k < 2; ++k) to[mpsx::air_offset(lane, k, start, column_stride, row_stride)] = from[k];      \
  }                                                                                                                  \
  MPSX_AIR void mpsx_air_matrix_diagonal_##TAG(T* to, mpsx::air_t<T> x) {                                            \
    metal::uint lane;                                                                                                \
    metal::mpsx_simd_active("simdgroup_matrix", MPSX_AIR_SITE, lane);                                                \
    const metal::mpsx_element_position at(lane);                                                                     \
    for (unsigned k = 0; k < 2; ++k) to[k] = at.row == at.column + k ? mpsx::air_get<T>(x) : T(0);                   \
  }
MPSX_AIR_FLOATS(MPSX_AIR_MATRIX, )
#define MPSX_AIR_MULTIPLY(TAG_D, D, TAG_A, A, TAG_B, B)                                                        \
  MPSX_AIR void mpsx_air_matrix_multiply_accumulate_##TAG_D##_##TAG_A##_##TAG_B(D* d, const A* a, const B* b,   \
                                                                                const D* c) {                  \
    const metal::float2 sum = metal::mpsx_matrix_elements<A, B>(                                               \
        metal::vec<A, 2>(a[0], a[1]), metal::vec<B, 2>(b[0], b[1]), metal::float2(float(c[0]), float(c[1])),   \
        "simdgroup_multiply_accumulate", MPSX_AIR_SITE);                                                       \
    d[0] = D(sum[0]);                                                                                          \
    d[1] = D(sum[1]);                                                                                          \
  }
#define MPSX_AIR_MULTIPLY_A(TAG_D, D, TAG_A, A)            \
  MPSX_AIR_MULTIPLY(TAG_D, D, TAG_A, A, f32, float)        \
  MPSX_AIR_MULTIPLY(TAG_D, D, TAG_A, A, f16, metal::half)  \
  MPSX_AIR_MULTIPLY(TAG_D, D, TAG_A, A, bf16, metal::bfloat)
#define MPSX_AIR_MULTIPLY_D(TAG, T, ...)        \
  MPSX_AIR_MULTIPLY_A(TAG, T, f32, float)       \
  MPSX_AIR_MULTIPLY_A(TAG, T, f16, metal::half) \
  MPSX_AIR_MULTIPLY_A(TAG, T, bf16, metal::bfloat)
MPSX_AIR_FLOATS(MPSX_AIR_MULTIPLY_D, )
#undef MPSX_AIR_MULTIPLY_D
#undef MPSX_AIR_MULTIPLY_A
#undef MPSX_AIR_MULTIPLY
#undef MPSX_AIR_MATRIX
#undef MPSX_AIR_GROUP
#undef MPSX_AIR_FILL
#undef MPSX_AIR_TAKE
#undef MPSX_AIR_LANES
