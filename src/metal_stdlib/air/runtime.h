// The runtime for kernels from Apple's metallibs (python/mpsx/air). Implements the intrinsics of AIR, Apple's dialect
// of LLVM IR, using the functions of this library. It is compiled to LLVM bitcode, and each kernel links only the
// functions that it calls.
//
// A function is named after its intrinsic and has one tag per type: air.max.s.i32 calls mpsx_air_max_s32. Integers of 8
// and 16 bits are passed as int or unsigned, so that the calling convention does not depend on extension attributes.
// Vectors are passed component by component.
#pragma once

#include "../msl.h"

#define MPSX_AIR extern "C" __attribute__((always_inline))
extern "C" const char mpsx_air_library[];  // the kernel's name, for messages
#define MPSX_AIR_SITE mpsx_air_library, 0

namespace mpsx {
// The type that represents a T in calls between the kernel and this runtime.
template <class T>
struct air_passed {
  typedef metal::conditional_t<(sizeof(T) >= 8), T, metal::conditional_t<metal::is_signed_v<T>, int, unsigned>> type;
  static MPSX_FN type pass(T x) { return type(x); }
  static MPSX_FN T get(type x) { return T(x); }
};
template <>
struct air_passed<bool> {
  typedef unsigned type;
  static MPSX_FN type pass(bool x) { return x; }
  static MPSX_FN bool get(type x) { return x & 1; }
};
template <>
struct air_passed<float> {
  typedef float type;
  static MPSX_FN type pass(float x) { return x; }
  static MPSX_FN float get(type x) { return x; }
};
template <>
struct air_passed<metal::half> {
  typedef _Float16 type;
  static MPSX_FN type pass(metal::half x) { return x; }
  static MPSX_FN metal::half get(type x) { return x; }
};
template <>
struct air_passed<metal::bfloat> {
  typedef __bf16 type;
  static MPSX_FN type pass(metal::bfloat x) { return __builtin_bit_cast(__bf16, x.bits); }
  static MPSX_FN metal::bfloat get(type x) {
    return metal::bfloat::from_bits(__builtin_bit_cast(unsigned short, x));
  }
};
template <class T>
using air_t = typename air_passed<T>::type;
template <class T>
MPSX_FN air_t<T> air_pass(T x) {
  return air_passed<T>::pass(x);
}
template <class T>
MPSX_FN T air_get(air_t<T> x) {
  return air_passed<T>::get(x);
}
}  // namespace mpsx

// Call M(tag, type, ...) for each of AIR's floating-point types, integer types, or both.
#define MPSX_AIR_FLOATS(M, ...) M(f32, float, __VA_ARGS__) M(f16, metal::half, __VA_ARGS__) M(bf16, metal::bfloat, __VA_ARGS__)
#define MPSX_AIR_INTEGERS(M, ...)                                                                               \
  M(s8, metal::int8_t, __VA_ARGS__) M(u8, metal::uchar, __VA_ARGS__) M(s16, short, __VA_ARGS__)                 \
  M(u16, metal::ushort, __VA_ARGS__) M(s32, int, __VA_ARGS__) M(u32, metal::uint, __VA_ARGS__)                  \
  M(s64, long, __VA_ARGS__) M(u64, metal::ulong, __VA_ARGS__)
#define MPSX_AIR_NUMBERS(M, ...) MPSX_AIR_FLOATS(M, __VA_ARGS__) MPSX_AIR_INTEGERS(M, __VA_ARGS__)

#include "math.h"
#include "atomic.h"
#include "simd.h"
#include "kernel.h"
