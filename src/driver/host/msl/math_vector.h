// The math functions component by component, and the namespaces fast and precise.
#pragma once

namespace metal {
#define MPSX_VECTOR_UNARY(F)                                                  \
  template <class A, class = enable_if_t<mpsx_is_vector<A>>, class = void>    \
  MPSX_FN auto F(const A& a) {                                                \
    typedef typename mpsx_vector<A>::scalar S;                                \
    return mpsx_map<S>([](S x) { return F(x); }, a);                          \
  }
#define MPSX_VECTOR_TEST(F)                                                   \
  template <class A, class = enable_if_t<mpsx_is_vector<A>>, class = void>    \
  MPSX_FN auto F(const A& a) {                                                \
    typedef typename mpsx_vector<A>::scalar S;                                \
    return mpsx_map<bool>([](S x) { return F(x); }, a);                       \
  }
// Any operand but the first may be a scalar.
#define MPSX_VECTOR_BINARY(F)                                                 \
  template <class A, class B, class = enable_if_t<mpsx_any_vector<A, B>>>     \
  MPSX_FN auto F(const A& a, const B& b) {                                    \
    typedef mpsx_common<A, B> V;                                              \
    typedef typename mpsx_vector<V>::scalar S;                                \
    return mpsx_map<S>([](S x, S y) { return F(x, y); }, V(a), b);            \
  }
#define MPSX_VECTOR_TERNARY(F)                                                         \
  template <class A, class B, class C, class = enable_if_t<mpsx_is_vector<A>>>         \
  MPSX_FN auto F(const A& a, const B& b, const C& c) {                                 \
    typedef typename mpsx_vector<A>::scalar S;                                         \
    return mpsx_map<S>([](S x, S y, S z) { return F(x, y, z); }, a, b, c);             \
  }
MPSX_UNARY_MATH(MPSX_VECTOR_UNARY)
MPSX_VECTOR_UNARY(abs)
MPSX_TEST_MATH(MPSX_VECTOR_TEST)
MPSX_BINARY_MATH(MPSX_VECTOR_BINARY)
MPSX_VECTOR_BINARY(max)
MPSX_VECTOR_BINARY(min)
MPSX_TERNARY_MATH(MPSX_VECTOR_TERNARY)
MPSX_VECTOR_TERNARY(clamp)
MPSX_VECTOR_TERNARY(max3)
MPSX_VECTOR_TERNARY(min3)
MPSX_VECTOR_TERNARY(median3)
template <class A, class B, class C, class = enable_if_t<mpsx_is_vector<A> && mpsx_is_vector<C>>>
MPSX_FN constexpr auto select(const A& a, const B& b, const C& c) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<S>([](S x, S y, bool z) { return z ? y : x; }, a, b, c);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto sincos(const A& a, mpsx_plain<A>& cosine) {
  cosine = cos(a);
  return sin(a);
}

#define MPSX_USING(F) using metal::F;
namespace precise {
MPSX_UNARY_MATH(MPSX_USING)
MPSX_BINARY_MATH(MPSX_USING)
MPSX_TERNARY_MATH(MPSX_USING)
MPSX_USING(abs)
MPSX_USING(sincos)
MPSX_USING(max)
MPSX_USING(min)
MPSX_USING(clamp)
}  // namespace precise
namespace fast {
using namespace precise;  // but for what math_trig.h has a faster form of
#define MPSX_FAST(F)                                                        \
  MPSX_FN half F(half x) { return half(F(float(x))); }                      \
  MPSX_FN bfloat F(bfloat x) { return bfloat(F(float(x))); }                \
  MPSX_VECTOR_UNARY(F)
MPSX_FAST(sin)
MPSX_FAST(cos)
MPSX_FAST(tan)
#undef MPSX_FAST
}  // namespace fast
}  // namespace metal
