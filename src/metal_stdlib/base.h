// Compiler-dependent definitions, and the names from the C++ library that Metal provides.
#pragma once

// When clang compiles users' kernels, half is clang's built-in type. Its conversions are then built in, as in Metal,
// which matters for overload resolution. In the project's kernels and with g++, half is a class (half.h). bfloat is
// always a class, because few processors support it.
#if defined(MPSX_GENERAL) && defined(__clang__)
#define MPSX_BUILTIN_HALF 1
#else
#define MPSX_BUILTIN_HALF 0
#endif
// Repeats a statement for each i < n, where n is at most 4, without a loop. Thousands of loops would make compilation
// slow.
#define MPSX_EACH(n, ...)                                        \
  {                                                              \
    {                                                            \
      constexpr int i = 0;                                       \
      __VA_ARGS__;                                               \
    }                                                            \
    if constexpr ((n) > 1) {                                     \
      constexpr int i = 1;                                       \
      __VA_ARGS__;                                               \
    }                                                            \
    if constexpr ((n) > 2) {                                     \
      constexpr int i = 2;                                       \
      __VA_ARGS__;                                               \
    }                                                            \
    if constexpr ((n) > 3) {                                     \
      constexpr int i = 3;                                       \
      __VA_ARGS__;                                               \
    }                                                            \
  }
#define MPSX_FN inline __attribute__((always_inline))
#ifdef MPSX_CUDA
#define MPSX_THREAD_LOCAL
#else
#define MPSX_THREAD_LOCAL thread_local
#endif

#if defined(__clang__)
#define MPSX_PRAGMA(x) _Pragma(#x)
#define MPSX_VECTORIZE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define MPSX_FEW_LOOP _Pragma("clang loop vectorize(disable) unroll(disable)")
#if defined(MPSX_SIMT) && !defined(MPSX_CUDA)  // each access is a call, so unrolling would make the code too large
#define MPSX_UNROLL_LOOP
#define MPSX_UNROLL_BY(n)
#else
#define MPSX_UNROLL_LOOP _Pragma("unroll")
#define MPSX_UNROLL_BY(n) MPSX_PRAGMA(unroll(n))
#endif
// Users' functions must be inlined into the loops over threads, regardless of their size. Otherwise the loops are not
// vectorized. With internal linkage, functions that no kernel calls are not compiled.
#define MPSX_INLINE_BEGIN                                                                                    \
  _Pragma("clang attribute push(__attribute__((always_inline)), apply_to = function)")                       \
  _Pragma("clang attribute push(__attribute__((internal_linkage)), apply_to = any(function, record, variable(is_global)))")
#define MPSX_ATTRIBUTE_END _Pragma("clang attribute pop")
#ifdef MPSX_SIMT  // any function may contain a barrier, so its calls must not be duplicated, merged or made conditional
#define MPSX_CONVERGENT_BEGIN _Pragma("clang attribute push(__attribute__((convergent, nomerge)), apply_to = function)")
#define MPSX_USER_CODE_BEGIN MPSX_INLINE_BEGIN MPSX_CONVERGENT_BEGIN
#define MPSX_USER_CODE_END MPSX_ATTRIBUTE_END MPSX_ATTRIBUTE_END MPSX_ATTRIBUTE_END
#else
#define MPSX_USER_CODE_BEGIN MPSX_INLINE_BEGIN
#define MPSX_USER_CODE_END MPSX_ATTRIBUTE_END MPSX_ATTRIBUTE_END
#endif
#define MPSX_ENTRY
#else
#define MPSX_PRAGMA(x) _Pragma(#x)
#define MPSX_VECTORIZE_LOOP _Pragma("GCC ivdep")
#define MPSX_FEW_LOOP
#define MPSX_UNROLL_LOOP
#define MPSX_UNROLL_BY(n)
#define MPSX_USER_CODE_BEGIN
#define MPSX_USER_CODE_END
#define MPSX_ENTRY __attribute__((flatten))
#endif
// Element i of an array of n, for functions that return a reference to it. -fsanitize=array-bounds does not report a
// reference to the element after the last one, so these functions report it themselves.
#ifdef MPSX_CHECKED
extern "C" void mpsx_index_fault(const char* function, long long index);
#define MPSX_ELEMENT(a, n, i) \
  a[(unsigned long)(i) < (n) ? (i) : (mpsx_index_fault(__PRETTY_FUNCTION__, (long long)(i)), (i))]
#else
#define MPSX_ELEMENT(a, n, i) a[i]
#endif
// MPSX_ALLOW_RACES of metal/lib/types.h.
#if defined(MPSX_SIMT) && !defined(MPSX_CUDA)
#define MPSX_ALLOWED_RACES(p) mpsx_simt_allow_races(p)
#else
#define MPSX_ALLOWED_RACES(p) ((void)(p))
#endif
// Macros that Apple's headers define.
#define METAL_FUNC inline __attribute__((always_inline))
#define METAL_ALIGN(n) alignas(n)
#define METAL_CONST
#define METAL_PURE
#define METAL_NOTHROW
#define METAL_CONSTEXPR constexpr
#define METAL_INTERNAL
#define MPSX_REDUCE_LOOP(...) MPSX_PRAGMA(omp simd reduction(__VA_ARGS__))

#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_E_H half(M_E_F)
#define M_LOG2E_H half(M_LOG2E_F)
#define M_LOG10E_H half(M_LOG10E_F)
#define M_LN2_H half(M_LN2_F)
#define M_LN10_H half(M_LN10_F)
#define M_PI_H half(M_PI_F)
#define M_PI_2_H half(M_PI_2_F)
#define M_PI_4_H half(M_PI_4_F)
#define M_1_PI_H half(M_1_PI_F)
#define M_2_PI_H half(M_2_PI_F)
#define M_2_SQRTPI_H half(M_2_SQRTPI_F)
#define M_SQRT2_H half(M_SQRT2_F)
#define M_SQRT1_2_H half(M_SQRT1_2_F)
#define M_E_BF bfloat(M_E_F)
#define M_LOG2E_BF bfloat(M_LOG2E_F)
#define M_LOG10E_BF bfloat(M_LOG10E_F)
#define M_LN2_BF bfloat(M_LN2_F)
#define M_LN10_BF bfloat(M_LN10_F)
#define M_PI_BF bfloat(M_PI_F)
#define M_PI_2_BF bfloat(M_PI_2_F)
#define M_PI_4_BF bfloat(M_PI_4_F)
#define M_1_PI_BF bfloat(M_1_PI_F)
#define M_2_PI_BF bfloat(M_2_PI_F)
#define M_2_SQRTPI_BF bfloat(M_2_SQRTPI_F)
#define M_SQRT2_BF bfloat(M_SQRT2_F)
#define M_SQRT1_2_BF bfloat(M_SQRT1_2_F)
#define MAXFLOAT __FLT_MAX__
#define HUGE_VALF __builtin_huge_valf()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FP_ILOGB0 (-__INT_MAX__ - 1)
#define FP_ILOGBNAN __INT_MAX__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1l)
#define ULONG_MAX (__LONG_MAX__ * 2ul + 1ul)
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INTPTR_TYPE__ intptr_t;

namespace metal {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
static_assert(sizeof(long) == 8, "Metal's long has 64 bits");

// Reinterprets the bits of a value as a different type of the same size.
template <class To, class From>
MPSX_FN constexpr To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the sizes differ");
  if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) {
    return __builtin_bit_cast(To, from);
  } else {  // vectors, and half where it has an explicit copy assignment
    To to(0);
    __builtin_memcpy(static_cast<void*>(&to), &from, sizeof to);
    return to;
  }
}
}  // namespace metal
