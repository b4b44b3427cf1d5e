// Component-wise math functions for calls with at least one vector operand. Scalar operands are applied to every
// component.
#pragma once

namespace metal {
template <class A, class B, class C>
constexpr bool mpsx_any_vector3 = (mpsx_is_vector<A> || mpsx_is_vector<B> || mpsx_is_vector<C>)&&mpsx_is_operand<A>&&
    mpsx_is_operand<B>&& mpsx_is_operand<C>;
// Applies f(a, b, c) to every component, with the operands converted to V's component type. R is the component type of
// the result.
template <class V, class R, class F, class... A>
MPSX_FN constexpr auto mpsx_each(F f, const A&... a) {
  typedef typename mpsx_vector<V>::scalar S;
  (mpsx_check_operand<V, A>(), ...);
  vec<R, mpsx_vector<V>::size> r(R(0));
  MPSX_EACH(mpsx_vector<V>::size, r.s[i] = f(S(mpsx_component(a, i))...))
  return r;
}
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
#define MPSX_VECTOR_BINARY_TO(F, R)                                           \
  template <class A, class B, class = enable_if_t<mpsx_any_vector<A, B>>>     \
  MPSX_FN auto F(const A& a, const B& b) {                                    \
    typedef mpsx_common<A, B> V;                                              \
    typedef typename mpsx_vector<V>::scalar S;                                \
    return mpsx_each<V, R>([](S x, S y) { return F(x, y); }, a, b);           \
  }
#define MPSX_VECTOR_BINARY(F) MPSX_VECTOR_BINARY_TO(F, S)
#define MPSX_VECTOR_TERNARY(F)                                                         \
  template <class A, class B, class C, class = enable_if_t<mpsx_any_vector3<A, B, C>>> \
  MPSX_FN auto F(const A& a, const B& b, const C& c) {                                 \
    typedef mpsx_common<A, conditional_t<mpsx_is_vector<B>, B, C>> V;                  \
    typedef typename mpsx_vector<V>::scalar S;                                         \
    return mpsx_each<V, S>([](S x, S y, S z) { return F(x, y, z); }, a, b, c);         \
  }
MPSX_UNARY_MATH(MPSX_VECTOR_UNARY)
MPSX_VECTOR_UNARY(abs)
MPSX_TEST_MATH(MPSX_VECTOR_TEST)
MPSX_BINARY_MATH(MPSX_VECTOR_BINARY)
MPSX_VECTOR_BINARY(divide)
MPSX_VECTOR_BINARY(max)
MPSX_VECTOR_BINARY(min)
MPSX_VECTOR_BINARY_TO(isordered, bool)
MPSX_VECTOR_BINARY_TO(isunordered, bool)
MPSX_TERNARY_MATH(MPSX_VECTOR_TERNARY)
MPSX_VECTOR_TERNARY(clamp)
MPSX_VECTOR_TERNARY(max3)
MPSX_VECTOR_TERNARY(min3)
MPSX_VECTOR_TERNARY(median3)
template <class A, class B, class C,
          class = enable_if_t<mpsx_any_vector<A, B> && (mpsx_is_vector<C> || is_same_v<C, bool>)>>
MPSX_FN constexpr auto select(const A& a, const B& b, const C& c) {
  typedef mpsx_common<A, B> V;
  typedef typename mpsx_vector<V>::scalar S;
  mpsx_check_operand<V, A>(), mpsx_check_operand<V, B>();
  static_assert(!mpsx_is_vector<C> || mpsx_vector<C>::size == mpsx_vector<V>::size,
                "select: the condition has another number of components");
  V r(S(0));
  MPSX_EACH(mpsx_vector<V>::size,
            r.s[i] = mpsx_component(c, i) ? S(mpsx_component(b, i)) : S(mpsx_component(a, i)))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto sincos(const A& a, mpsx_plain<A>& cosine) {
  cosine = cos(a);
  return sin(a);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto modf(const A& a, mpsx_plain<A>& whole) {
  whole = trunc(a);
  mpsx_plain<A> r(whole);
  MPSX_EACH(mpsx_vector<A>::size, r.s[i] = modf(a.get(i), whole.s[i]))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto frexp(const A& a, vec<int, mpsx_vector<A>::size>& exponent) {
  mpsx_plain<A> r(a);
  MPSX_EACH(mpsx_vector<A>::size, r.s[i] = frexp(a.get(i), exponent.s[i]))
  return r;
}
template <class A, class B, class = enable_if_t<mpsx_is_vector<A> && mpsx_is_operand<B>>>
MPSX_FN auto ldexp(const A& a, const B& n) {
  mpsx_plain<A> r(a);
  MPSX_EACH(mpsx_vector<A>::size, r.s[i] = ldexp(a.get(i), int(mpsx_component(n, i))))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto ilogb(const A& a) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<int>([](S x) { return ilogb(x); }, a);
}
}  // namespace metal
