// Namespaces precise and fast (MSL specification 3.2, section 6.5). Both contain the functions of namespace metal,
// except the ones with a faster version in math_trig.h. Metal defines the math functions in these namespaces only for
// float, so half and bfloat arguments are converted.
#pragma once

namespace metal {
#define MPSX_COMMON_UNARY(M)                                                                                        \
  M(acos) M(acosh) M(asin) M(asinh) M(atan) M(atanh) M(ceil) M(cosh) M(cospi) M(exp10) M(fabs)                     \
  M(floor) M(fract) M(log) M(log10) M(log2) M(rint) M(round) M(rsqrt) M(saturate) M(sign) M(sinh) M(sinpi) M(sqrt) \
  M(tanh) M(tanpi) M(trunc)
#define MPSX_COMMON_NAMES(M)                                                                                       \
  M(abs) M(max) M(min) M(clamp) M(max3) M(min3) M(median3) M(sincos) M(modf) M(frexp)                              \
  M(ldexp) M(ilogb) M(dot) M(length) M(length_squared) M(distance) M(distance_squared) M(normalize) M(cross)       \
  M(reflect) M(refract) M(faceforward) M(isordered) M(isunordered) M(select)
#define MPSX_USING(F) using metal::F;
#ifdef MPSX_METAL_OVERLOADS
#define MPSX_FLOAT_UNARY(F)                               \
  MPSX_FN float F(float x) { return metal::F(x); }        \
  MPSX_VECTOR_UNARY(F)
#define MPSX_FLOAT_BINARY(F)                                       \
  MPSX_FN float F(float x, float y) { return metal::F(x, y); }     \
  MPSX_VECTOR_BINARY(F)
#define MPSX_FLOAT_TERNARY(F)                                                  \
  MPSX_FN float F(float x, float y, float z) { return metal::F(x, y, z); }     \
  MPSX_VECTOR_TERNARY(F)
#else
#define MPSX_FLOAT_UNARY MPSX_USING
#define MPSX_FLOAT_BINARY MPSX_USING
#define MPSX_FLOAT_TERNARY MPSX_USING
#endif
#define MPSX_USING_ALL                \
  MPSX_COMMON_UNARY(MPSX_FLOAT_UNARY)   \
  MPSX_COMMON_NAMES(MPSX_USING)         \
  MPSX_BINARY_MATH(MPSX_FLOAT_BINARY)   \
  MPSX_TERNARY_MATH(MPSX_FLOAT_TERNARY) \
  MPSX_TEST_MATH(MPSX_USING)
namespace precise {
MPSX_USING_ALL
MPSX_FLOAT_BINARY(divide)
MPSX_FLOAT_UNARY(exp)
MPSX_FLOAT_UNARY(exp2)
MPSX_FLOAT_UNARY(sin)
MPSX_FLOAT_UNARY(cos)
MPSX_FLOAT_UNARY(tan)
}  // namespace precise
namespace fast {
MPSX_USING_ALL
#ifdef MPSX_METAL_OVERLOADS
#define MPSX_FAST MPSX_VECTOR_UNARY
#else
#define MPSX_FAST(F)                  \
  template <class H>                  \
  MPSX_FN mpsx_if_small<H> F(H x) {   \
    return H(F(float(x)));            \
  }                                   \
  MPSX_VECTOR_UNARY(F)
#endif
#ifdef MPSX_CUDA
MPSX_FN float exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
MPSX_FN float exp(float x) { return exp2(x * M_LOG2E_F); }
MPSX_FAST(exp2)
MPSX_FAST(exp)
MPSX_FN float divide(float a, float b) { return mpsx_fast_divide(a, b); }
#ifndef MPSX_METAL_OVERLOADS
template <class A, class B>
MPSX_FN mpsx_if_small<A, B> divide(A a, B b) {
  return mpsx_if_small<A, B>(divide(float(a), float(b)));
}
#endif
MPSX_VECTOR_BINARY(divide)
#else
MPSX_FLOAT_UNARY(exp2)
MPSX_FLOAT_UNARY(exp)
MPSX_FLOAT_BINARY(divide)
#endif
MPSX_FAST(sin)
MPSX_FAST(cos)
MPSX_FAST(tan)
#undef MPSX_FAST
}  // namespace fast
#undef MPSX_COMMON_UNARY
#undef MPSX_COMMON_NAMES
#undef MPSX_FLOAT_UNARY
#undef MPSX_FLOAT_BINARY
#undef MPSX_FLOAT_TERNARY
#undef MPSX_USING_ALL
#undef MPSX_USING
}  // namespace metal
