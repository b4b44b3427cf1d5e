// Types that Metal provides even without `using namespace metal`, for translated code at global scope.
#pragma once

#include "builtins.h"
#include "logging.h"

#define MPSX_TYPE(T) using metal::T;
#define MPSX_VECTOR_TYPE(T)                                                                       \
  using metal::T##2;                                                                              \
  using metal::T##3;                                                                              \
  using metal::T##4;                                                                              \
  using metal::packed_##T##2;                                                                     \
  using metal::packed_##T##3;                                                                     \
  using metal::packed_##T##4;
#define MPSX_MATRIX_TYPE(T)                                                                       \
  using metal::T##2x2;                                                                            \
  using metal::T##2x3;                                                                            \
  using metal::T##2x4;                                                                            \
  using metal::T##3x2;                                                                            \
  using metal::T##3x3;                                                                            \
  using metal::T##3x4;                                                                            \
  using metal::T##4x2;                                                                            \
  using metal::T##4x3;                                                                            \
  using metal::T##4x4;
MPSX_TYPE(half)
MPSX_TYPE(bfloat)
MPSX_TYPE(uchar)
MPSX_TYPE(ushort)
MPSX_TYPE(uint)
MPSX_TYPE(ulong)
MPSX_TYPE(as_type)
MPSX_VECTOR_TYPE(bool)
MPSX_VECTOR_TYPE(char)
MPSX_VECTOR_TYPE(uchar)
MPSX_VECTOR_TYPE(short)
MPSX_VECTOR_TYPE(ushort)
MPSX_VECTOR_TYPE(int)
MPSX_VECTOR_TYPE(uint)
MPSX_VECTOR_TYPE(long)
MPSX_VECTOR_TYPE(ulong)
MPSX_VECTOR_TYPE(half)
MPSX_VECTOR_TYPE(bfloat)
MPSX_VECTOR_TYPE(float)
MPSX_MATRIX_TYPE(float)
MPSX_MATRIX_TYPE(half)
#undef MPSX_TYPE
#undef MPSX_VECTOR_TYPE
#undef MPSX_MATRIX_TYPE

namespace metal {
template <class X>
struct vec_elements {
  static constexpr int value = mpsx_vector<X>::size;
};
// Whether the SIMD-group functions support type X.
template <class X, class T = typename mpsx_vector<X>::scalar>
struct __is_valid_simdgroup_type : bool_constant<is_arithmetic_v<T> && !is_same_v<T, bool> && sizeof(T) <= 4> {};
// Implements `uint4 v = {a, b};`, which sets the remaining components to zero.
template <class V, class... A>
MPSX_FN constexpr V mpsx_list_of(const A&... a) {
  constexpr int size = (0 + ... + mpsx_vector<A>::size), missing = mpsx_vector<V>::size - size;
  if constexpr (missing == 1) return V(a..., 0);
  if constexpr (missing == 2) return V(a..., 0, 0);
  if constexpr (missing < 1 || missing > 2) return V(a...);
}
}  // namespace metal
// Users specialize _numeric_limits_impl, the base class of numeric_limits in Apple's headers.
#define _numeric_limits_impl numeric_limits
// `forward` is a reserved name in C++ but not in Metal, so users may define it.
#define forward forward_

// Type names from <simd/simd.h>.
namespace simd {
using namespace metal;
}
#define MPSX_SIMD_TYPE(T) \
  typedef metal::T simd_##T; \
  typedef metal::T vector_##T;
#define MPSX_SIMD_TYPES(T) MPSX_SIMD_TYPE(T##2) MPSX_SIMD_TYPE(T##3) MPSX_SIMD_TYPE(T##4)
MPSX_SIMD_TYPES(float)
MPSX_SIMD_TYPES(half)
MPSX_SIMD_TYPES(int)
MPSX_SIMD_TYPES(uint)
MPSX_SIMD_TYPES(short)
MPSX_SIMD_TYPES(ushort)
MPSX_SIMD_TYPES(char)
MPSX_SIMD_TYPES(uchar)
typedef metal::float2x2 simd_float2x2, matrix_float2x2;
typedef metal::float3x3 simd_float3x3, matrix_float3x3;
typedef metal::float4x4 simd_float4x4, matrix_float4x4;
#undef MPSX_SIMD_TYPE
#undef MPSX_SIMD_TYPES
