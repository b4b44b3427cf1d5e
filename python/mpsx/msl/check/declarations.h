// Declarations of the Metal library for clang in the address space check: types, and functions with pointer parameters.
// A missing declaration only makes the check miss errors, because address_spaces.py ignores clang's errors about
// anything but address spaces, such as unknown names.
#pragma once

#define thread
#define kernel
#define METAL_FUNC inline
#define METAL_VALID_RENDER_TARGET

#define MPSX_FLOAT 1.0f
#define M_PI_F MPSX_FLOAT
#define M_E_F MPSX_FLOAT
#define M_LOG2E_F MPSX_FLOAT
#define M_LOG10E_F MPSX_FLOAT
#define M_LN2_F MPSX_FLOAT
#define M_LN10_F MPSX_FLOAT
#define M_PI_2_F MPSX_FLOAT
#define M_PI_4_F MPSX_FLOAT
#define M_1_PI_F MPSX_FLOAT
#define M_2_PI_F MPSX_FLOAT
#define M_2_SQRTPI_F MPSX_FLOAT
#define M_SQRT2_F MPSX_FLOAT
#define M_SQRT1_2_F MPSX_FLOAT
#define MAXFLOAT MPSX_FLOAT
#define INFINITY MPSX_FLOAT
#define NAN MPSX_FLOAT
#define HUGE_VALF MPSX_FLOAT
#define FLT_MAX MPSX_FLOAT
#define FLT_MIN MPSX_FLOAT
#define FLT_EPSILON MPSX_FLOAT
#define M_PI_H half(1)
#define MAXHALF half(1)
#define HALF_MAX half(1)
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1l)
#define ULONG_MAX (__LONG_MAX__ * 2ul + 1ul)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define CHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_BIT 8

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;
typedef bfloat bfloat16_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef ulong uintptr_t;
typedef long intptr_t;

namespace metal {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
template <class T, size_t N>
struct array {
  T elements[N];
  T& operator[](size_t i);
  const T& operator[](size_t i) const;
};
template <class T, int N>
struct packed_vec {
  T components[N];
  T& operator[](int i);
  const T& operator[](int i) const;
  operator vec<T, N>() const;
};
#define MPSX_VECTORS(T)                                                                         \
  typedef vec<T, 2> T##2; typedef vec<T, 3> T##3; typedef vec<T, 4> T##4;                       \
  typedef packed_vec<T, 2> packed_##T##2; typedef packed_vec<T, 3> packed_##T##3;               \
  typedef packed_vec<T, 4> packed_##T##4;
MPSX_VECTORS(bool)
MPSX_VECTORS(char)
MPSX_VECTORS(uchar)
MPSX_VECTORS(short)
MPSX_VECTORS(ushort)
MPSX_VECTORS(int)
MPSX_VECTORS(uint)
MPSX_VECTORS(long)
MPSX_VECTORS(ulong)
MPSX_VECTORS(half)
MPSX_VECTORS(bfloat)
MPSX_VECTORS(float)
#undef MPSX_VECTORS
template <class T, int C, int R>
struct matrix {
  vec<T, R> columns[C];
  vec<T, R>& operator[](int i);
  const vec<T, R>& operator[](int i) const;
};
#define MPSX_MATRICES(T, R)                                                          \
  typedef matrix<T, 2, R> T##2x##R; typedef matrix<T, 3, R> T##3x##R; typedef matrix<T, 4, R> T##4x##R;
MPSX_MATRICES(half, 2)
MPSX_MATRICES(half, 3)
MPSX_MATRICES(half, 4)
MPSX_MATRICES(float, 2)
MPSX_MATRICES(float, 3)
MPSX_MATRICES(float, 4)
#undef MPSX_MATRICES

template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  constexpr operator T() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class A, class B> constexpr bool is_same_v = __is_same(A, B);
template <class A, class B> struct is_same : bool_constant<__is_same(A, B)> {};
#define MPSX_TRAIT(NAME, ...)                                     \
  template <class T> constexpr bool NAME##_v = __VA_ARGS__;       \
  template <class T> struct NAME : bool_constant<__VA_ARGS__> {};
template <class T> struct remove_cv { typedef __remove_cv(T) type; };
template <class T> using remove_cv_t = __remove_cv(T);
template <class T> struct remove_const { typedef __remove_const(T) type; };
template <class T> using remove_const_t = __remove_const(T);
template <class T> struct remove_reference { typedef __remove_reference_t(T) type; };
template <class T> using remove_reference_t = __remove_reference_t(T);
template <class T> struct remove_pointer { typedef __remove_pointer(T) type; };
template <class T> using remove_pointer_t = __remove_pointer(T);
template <class T> struct decay { typedef __decay(T) type; };
template <class T> using decay_t = __decay(T);
MPSX_TRAIT(is_floating_point,
           __is_floating_point(T) || __is_same(__remove_cv(T), half) || __is_same(__remove_cv(T), bfloat))
MPSX_TRAIT(is_integral, __is_integral(T))
MPSX_TRAIT(is_arithmetic, __is_arithmetic(T) || is_floating_point_v<T>)
MPSX_TRAIT(is_scalar, __is_scalar(T))
MPSX_TRAIT(is_signed, __is_signed(T) || is_floating_point_v<T>)
MPSX_TRAIT(is_unsigned, __is_unsigned(T))
MPSX_TRAIT(is_pointer, __is_pointer(T))
MPSX_TRAIT(is_reference, __is_reference(T))
MPSX_TRAIT(is_const, __is_const(T))
MPSX_TRAIT(is_void, __is_void(T))
MPSX_TRAIT(is_enum, __is_enum(T))
MPSX_TRAIT(is_class, __is_class(T))
MPSX_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
#undef MPSX_TRAIT
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> constexpr bool is_convertible_v = __is_convertible(A, B);
template <class A, class B> constexpr bool is_base_of_v = __is_base_of(A, B);
template <class T> struct make_unsigned { typedef __make_unsigned(T) type; };
template <class T> using make_unsigned_t = __make_unsigned(T);
template <class T> struct make_signed { typedef __make_signed(T) type; };
template <class T> using make_signed_t = __make_signed(T);
template <class T> T&& declval();

template <class T>
struct numeric_limits {
  static constexpr bool is_integer = __is_integral(T);
  static constexpr T max() { return T(); }
  static constexpr T min() { return T(); }
  static constexpr T lowest() { return T(); }
  static constexpr T infinity() { return T(); }
  static constexpr T quiet_NaN() { return T(); }
  static constexpr T epsilon() { return T(); }
};
// Functions that have no pointer parameters and return the type of their first argument.
#define MPSX_VALUE(F) template <class A, class... B> A F(A, B...);
#define MPSX_TEST(F) template <class... A> bool F(A...);
#define MPSX_VALUES                                                                                                  \
  MPSX_VALUE(abs) MPSX_VALUE(absdiff) MPSX_VALUE(acos) MPSX_VALUE(acosh) MPSX_VALUE(addsat) MPSX_VALUE(asin)         \
  MPSX_VALUE(asinh) MPSX_VALUE(atan) MPSX_VALUE(atan2) MPSX_VALUE(atanh) MPSX_VALUE(ceil) MPSX_VALUE(clamp)          \
  MPSX_VALUE(clz) MPSX_VALUE(copysign) MPSX_VALUE(cos) MPSX_VALUE(cosh) MPSX_VALUE(cospi) MPSX_VALUE(cross)          \
  MPSX_VALUE(ctz) MPSX_VALUE(divide) MPSX_VALUE(exp)               \
  MPSX_VALUE(exp10) MPSX_VALUE(exp2) MPSX_VALUE(extract_bits) MPSX_VALUE(fabs) MPSX_VALUE(faceforward)               \
  MPSX_VALUE(fdim) MPSX_VALUE(floor) MPSX_VALUE(fma) MPSX_VALUE(fmax) MPSX_VALUE(fmax3) MPSX_VALUE(fmedian3)         \
  MPSX_VALUE(fmin) MPSX_VALUE(fmin3) MPSX_VALUE(fmod) MPSX_VALUE(fract) MPSX_VALUE(hadd) MPSX_VALUE(insert_bits)     \
  MPSX_VALUE(ldexp) MPSX_VALUE(log) MPSX_VALUE(log10) MPSX_VALUE(log2) \
  MPSX_VALUE(mad24) MPSX_VALUE(madhi) MPSX_VALUE(madsat) MPSX_VALUE(max3) MPSX_VALUE(median3) MPSX_VALUE(min3)       \
  MPSX_VALUE(mix) MPSX_VALUE(mul24) MPSX_VALUE(mulhi) MPSX_VALUE(nextafter) MPSX_VALUE(normalize)                    \
  MPSX_VALUE(popcount) MPSX_VALUE(pow) MPSX_VALUE(powr) MPSX_VALUE(quad_broadcast) MPSX_VALUE(quad_max)              \
  MPSX_VALUE(quad_min) MPSX_VALUE(quad_product) MPSX_VALUE(quad_shuffle) MPSX_VALUE(quad_shuffle_down)               \
  MPSX_VALUE(quad_shuffle_up) MPSX_VALUE(quad_shuffle_xor) MPSX_VALUE(quad_sum) MPSX_VALUE(reflect)                  \
  MPSX_VALUE(refract) MPSX_VALUE(reverse_bits) MPSX_VALUE(rhadd) MPSX_VALUE(rint) MPSX_VALUE(rotate)                 \
  MPSX_VALUE(round) MPSX_VALUE(rsqrt) MPSX_VALUE(saturate) MPSX_VALUE(select) MPSX_VALUE(sign) MPSX_VALUE(simd_and)  \
  MPSX_VALUE(simd_broadcast) MPSX_VALUE(simd_broadcast_first) MPSX_VALUE(simd_max) MPSX_VALUE(simd_min)              \
  MPSX_VALUE(simd_or) MPSX_VALUE(simd_prefix_exclusive_product) MPSX_VALUE(simd_prefix_exclusive_sum)                \
  MPSX_VALUE(simd_prefix_inclusive_product) MPSX_VALUE(simd_prefix_inclusive_sum) MPSX_VALUE(simd_product)           \
  MPSX_VALUE(simd_shuffle) MPSX_VALUE(simd_shuffle_and_fill_down) MPSX_VALUE(simd_shuffle_and_fill_up)               \
  MPSX_VALUE(simd_shuffle_down) MPSX_VALUE(simd_shuffle_rotate_down) MPSX_VALUE(simd_shuffle_rotate_up)              \
  MPSX_VALUE(simd_shuffle_up) MPSX_VALUE(simd_shuffle_xor) MPSX_VALUE(simd_sum) MPSX_VALUE(simd_xor) MPSX_VALUE(sin) \
  MPSX_VALUE(sinh) MPSX_VALUE(sinpi) MPSX_VALUE(smoothstep) MPSX_VALUE(sqrt) MPSX_VALUE(step) MPSX_VALUE(subsat)     \
  MPSX_VALUE(tan) MPSX_VALUE(tanh) MPSX_VALUE(tanpi) MPSX_VALUE(trunc)
MPSX_VALUES
MPSX_TEST(all) MPSX_TEST(any) MPSX_TEST(isfinite) MPSX_TEST(isinf) MPSX_TEST(isnan) MPSX_TEST(isnormal)
MPSX_TEST(isordered) MPSX_TEST(isunordered) MPSX_TEST(signbit) MPSX_TEST(simd_all) MPSX_TEST(simd_any)
MPSX_TEST(simd_is_first) MPSX_TEST(quad_all) MPSX_TEST(quad_any) MPSX_TEST(quad_is_first)
namespace precise {
MPSX_VALUES
}
namespace fast {
MPSX_VALUES
}
#undef MPSX_VALUES
#undef MPSX_VALUE
#undef MPSX_TEST
typedef ulong simd_vote;
simd_vote simd_ballot(bool);
template <class A, class B> float dot(A, B);
template <class A, class B> float distance(A, B);
template <class A, class B> float distance_squared(A, B);
template <class A> float length(A);
template <class A> float length_squared(A);
template <class A> A sincos(A, A&);
template <class A> A modf(A, A&);
template <class A, class B> A frexp(A, B&);
template <class A> constexpr A max(A a, A b) { return a < b ? b : a; }
template <class A> constexpr A min(A a, A b) { return b < a ? b : a; }
template <class To, class From> To as_type(From);

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
enum memory_order { memory_order_relaxed, memory_order_seq_cst };
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
void atomic_thread_fence(mem_flags, memory_order);

template <class T>
struct atomic { T value; };
template <class T> using _atomic = atomic<T>;
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<ulong> atomic_ulong;
typedef atomic<float> atomic_float;
// Section 6.15.2: atomic objects are in device or threadgroup memory.
#define MPSX_ATOMIC(SPACE)                                                                                            \
  template <class T> T atomic_load_explicit(const volatile SPACE atomic<T>*, memory_order);                           \
  template <class T, class V> void atomic_store_explicit(volatile SPACE atomic<T>*, V, memory_order);                 \
  template <class T, class V> T atomic_exchange_explicit(volatile SPACE atomic<T>*, V, memory_order);                 \
  template <class T, class V>                                                                                         \
  bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic<T>*, T*, V, memory_order, memory_order);           \
  template <class T, class V> T atomic_fetch_add_explicit(volatile SPACE atomic<T>*, V, memory_order);                \
  template <class T, class V> T atomic_fetch_sub_explicit(volatile SPACE atomic<T>*, V, memory_order);                \
  template <class T, class V> T atomic_fetch_min_explicit(volatile SPACE atomic<T>*, V, memory_order);                \
  template <class T, class V> T atomic_fetch_max_explicit(volatile SPACE atomic<T>*, V, memory_order);                \
  template <class T, class V> T atomic_fetch_and_explicit(volatile SPACE atomic<T>*, V, memory_order);                \
  template <class T, class V> T atomic_fetch_or_explicit(volatile SPACE atomic<T>*, V, memory_order);                 \
  template <class T, class V> T atomic_fetch_xor_explicit(volatile SPACE atomic<T>*, V, memory_order);
MPSX_ATOMIC(device)
MPSX_ATOMIC(threadgroup)
#undef MPSX_ATOMIC

template <class T, int C, int R>
struct simdgroup_matrix {
  T elements[2];
  vec<T, 2>& thread_elements();
};
#define MPSX_SIMDGROUP(SPACE)                                                                           \
  template <class T, class... A> void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const SPACE T*, A...); \
  template <class T, class... A> void simdgroup_store(simdgroup_matrix<T, 8, 8>, SPACE T*, A...);
MPSX_SIMDGROUP(device)
MPSX_SIMDGROUP(threadgroup)
#undef MPSX_SIMDGROUP
template <class D, class A, class B, class C> void simdgroup_multiply_accumulate(D&, A, B, C);
template <class D, class A, class B> void simdgroup_multiply(D&, A, B);
template <class T, int C, int R> simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T);
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

// Replacements for C-style pointer casts. They accept only integers and pointers to the target's address space (section
// 4).
template <class T, class = enable_if_t<__is_integral(T) || __is_enum(T)>> T mpsx_cast_device(T);
template <class T, class = enable_if_t<__is_integral(T) || __is_enum(T)>> T mpsx_cast_constant(T);
template <class T, class = enable_if_t<__is_integral(T) || __is_enum(T)>> T mpsx_cast_threadgroup(T);
decltype(nullptr) mpsx_cast_device(decltype(nullptr));
decltype(nullptr) mpsx_cast_constant(decltype(nullptr));
decltype(nullptr) mpsx_cast_threadgroup(decltype(nullptr));
template <class T, class = enable_if_t<__is_integral(T) || __is_enum(T)>> T mpsx_cast_thread(T);
decltype(nullptr) mpsx_cast_thread(decltype(nullptr));
template <class T> T* mpsx_cast_thread(T* p);
template <class T> void mpsx_cast_thread(device T*) = delete;
template <class T> void mpsx_cast_thread(constant T*) = delete;
template <class T> void mpsx_cast_thread(threadgroup T*) = delete;
template <class T> device T* mpsx_cast_device(device T* p);
template <class T> constant T* mpsx_cast_constant(constant T* p);
template <class T> threadgroup T* mpsx_cast_threadgroup(threadgroup T* p);
}  // namespace metal
using metal::as_type;
#if __cplusplus > 202002L
#include "tensor_declarations.h"
#endif
