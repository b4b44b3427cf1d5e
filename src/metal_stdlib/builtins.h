// Builtin functions of Apple's compiler that existing kernels call directly. The last argument of many of them selects
// fast math. They are macros so that SIMD functions can report the line of the user's call.
#pragma once

#define __metal_abs(x) ::metal::abs(x)
#define __metal_acos(x, ...) ::metal::acos(x)
#define __metal_acosh(x, ...) ::metal::acosh(x)
#define __metal_asin(x, ...) ::metal::asin(x)
#define __metal_asinh(x, ...) ::metal::asinh(x)
#define __metal_atan(x, ...) ::metal::atan(x)
#define __metal_atan2(y, x, ...) ::metal::atan2(y, x)
#define __metal_atanh(x, ...) ::metal::atanh(x)
#define __metal_ceil(x, ...) ::metal::ceil(x)
#define __metal_clamp(x, low, high, ...) ::metal::clamp(x, low, high)
#define __metal_clz(x, ...) ::metal::clz(x)
#define __metal_copysign(x, y, ...) ::metal::copysign(x, y)
#define __metal_cos(x, ...) ::metal::cos(x)
#define __metal_cosh(x, ...) ::metal::cosh(x)
#define __metal_cospi(x, ...) ::metal::cospi(x)
#define __metal_ctz(x, ...) ::metal::ctz(x)
#define __metal_divide(x, y, ...) ::metal::divide(x, y)
#define __metal_exp(x, ...) ::metal::exp(x)
#define __metal_exp10(x, ...) ::metal::exp10(x)
#define __metal_exp2(x, ...) ::metal::exp2(x)
#define __metal_fabs(x, ...) ::metal::fabs(x)
#define __metal_floor(x, ...) ::metal::floor(x)
#define __metal_fma(x, y, z, ...) ::metal::fma(x, y, z)
#define __metal_fmax(x, y, ...) ::metal::fmax(x, y)
#define __metal_fmax3(x, y, z, ...) ::metal::fmax3(x, y, z)
#define __metal_fmedian3(x, y, z, ...) ::metal::fmedian3(x, y, z)
#define __metal_fmin(x, y, ...) ::metal::fmin(x, y)
#define __metal_fmin3(x, y, z, ...) ::metal::fmin3(x, y, z)
#define __metal_fmod(x, y, ...) ::metal::fmod(x, y)
#define __metal_fract(x, ...) ::metal::fract(x)
#define __metal_frexp(x, exponent, ...) ::metal::frexp(x, *(exponent))
#define __metal_ldexp(x, k, ...) ::metal::ldexp(x, k)
#define __metal_log(x, ...) ::metal::log(x)
#define __metal_log10(x, ...) ::metal::log10(x)
#define __metal_log2(x, ...) ::metal::log2(x)
#define __metal_max(x, y, ...) ::metal::max(x, y)
#define __metal_min(x, y, ...) ::metal::min(x, y)
#define __metal_mulhi(x, y, ...) ::metal::mulhi(x, y)
#define __metal_nextafter(x, y, ...) ::metal::nextafter(x, y)
#define __metal_popcount(x, ...) ::metal::popcount(x)
#define __metal_pow(x, y, ...) ::metal::pow(x, y)
#define __metal_powr(x, y, ...) ::metal::powr(x, y)
#define __metal_rint(x, ...) ::metal::rint(x)
#define __metal_round(x, ...) ::metal::round(x)
#define __metal_rsqrt(x, ...) ::metal::rsqrt(x)
#define __metal_saturate(x, ...) ::metal::saturate(x)
#define __metal_sign(x, ...) ::metal::sign(x)
#define __metal_sin(x, ...) ::metal::sin(x)
#define __metal_sinh(x, ...) ::metal::sinh(x)
#define __metal_sinpi(x, ...) ::metal::sinpi(x)
#define __metal_sqrt(x, ...) ::metal::sqrt(x)
#define __metal_tan(x, ...) ::metal::tan(x)
#define __metal_tanh(x, ...) ::metal::tanh(x)
#define __metal_tanpi(x, ...) ::metal::tanpi(x)
#define __metal_trunc(x, ...) ::metal::trunc(x)

// Converts a float to an integer as if it were passed to an integer parameter.
namespace metal {
template <class T>
MPSX_FN constexpr auto mpsx_integer(T x) {
  if constexpr (is_floating_point_v<T>)
    return int(x);
  else
    return x;
}
}  // namespace metal
#define __metal_simd_and(x) ::metal::simd_and(::metal::mpsx_integer(x))
#define __metal_simd_broadcast(x, lane) ::metal::simd_broadcast(x, lane)
#define __metal_simd_broadcast_first(x) ::metal::simd_broadcast_first(x)
#define __metal_simd_max(x) ::metal::simd_max(x)
#define __metal_simd_min(x) ::metal::simd_min(x)
#define __metal_simd_or(x) ::metal::simd_or(::metal::mpsx_integer(x))
#define __metal_simd_prefix_exclusive_product(x) ::metal::simd_prefix_exclusive_product(x)
#define __metal_simd_prefix_exclusive_sum(x) ::metal::simd_prefix_exclusive_sum(x)
#define __metal_simd_prefix_inclusive_product(x) ::metal::simd_prefix_inclusive_product(x)
#define __metal_simd_prefix_inclusive_sum(x) ::metal::simd_prefix_inclusive_sum(x)
#define __metal_simd_product(x) ::metal::simd_product(x)
#define __metal_simd_shuffle(x, lane) ::metal::simd_shuffle(x, lane)
#define __metal_simd_shuffle_and_fill_down(x, fill, delta, modulo) \
  ::metal::simd_shuffle_and_fill_down(x, fill, delta, modulo)
#define __metal_simd_shuffle_and_fill_up(x, fill, delta, modulo) ::metal::simd_shuffle_and_fill_up(x, fill, delta, modulo)
#define __metal_simd_shuffle_down(x, delta) ::metal::simd_shuffle_down(x, delta)
#define __metal_simd_shuffle_rotate_down(x, delta) ::metal::simd_shuffle_rotate_down(x, delta)
#define __metal_simd_shuffle_rotate_up(x, delta) ::metal::simd_shuffle_rotate_up(x, delta)
#define __metal_simd_shuffle_up(x, delta) ::metal::simd_shuffle_up(x, delta)
#define __metal_simd_shuffle_xor(x, mask) ::metal::simd_shuffle_xor(x, mask)
#define __metal_simd_sum(x) ::metal::simd_sum(x)
#define __metal_simd_xor(x) ::metal::simd_xor(::metal::mpsx_integer(x))

#ifdef MPSX_SIMT
#define __metal_get_simdgroup_size(kind) decltype(kind)(MPSX_SIMD_WIDTH)
namespace metal {
MPSX_FN uint mpsx_lane(MPSX_CALL_SITE) {
  uint lane;
  mpsx_simd_active("__metal_get_thread_index_in_simdgroup", mpsx_file, mpsx_line, lane);
  return lane;
}
}  // namespace metal
#define __metal_get_thread_index_in_simdgroup(kind) decltype(kind)(::metal::mpsx_lane())
#endif

namespace metal {
template <class... B>
using _conjunction = conjunction<B...>;
template <class... B>
using _disjunction = disjunction<B...>;
template <class B>
using _negation = negation<B>;
template <class T>
struct remove_addrspace {
  typedef T type;
};
template <class T>
using remove_addrspace_t = T;

// The limits of a vector are the limits of its components. The functions cannot return vec, because a constant
// expression can access the components of a vec only by index, and `constexpr float x =
// numeric_limits<float2>::infinity().x` must compile.
template <class T, int N>
struct mpsx_same_components {
  T x, y, z, w;
  MPSX_FN constexpr operator vec<T, N>() const { return vec<T, N>(x); }
  MPSX_FN constexpr T operator[](int) const { return x; }
};
template <class T, int N>
struct numeric_limits<vec<T, N>> : numeric_limits<T> {
#define MPSX_LIMIT(NAME)                                  \
  static constexpr mpsx_same_components<T, N> NAME() {    \
    constexpr T x = numeric_limits<T>::NAME();            \
    return {x, x, x, x};                                  \
  }
  MPSX_LIMIT(max)
  MPSX_LIMIT(min)
  MPSX_LIMIT(lowest)
  MPSX_LIMIT(epsilon)
  MPSX_LIMIT(infinity)
  MPSX_LIMIT(quiet_NaN)
  MPSX_LIMIT(denorm_min)
#undef MPSX_LIMIT
};

// <metal_uniform>: values that are the same in every thread.
template <class T>
using uniform = T;
template <class T>
MPSX_FN constexpr T make_uniform(T x) {
  return x;
}
}  // namespace metal
