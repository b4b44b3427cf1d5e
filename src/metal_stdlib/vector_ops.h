// Operators for vectors. Either operand may be a swizzle or a scalar.
#pragma once

namespace metal {
template <class A, class B, bool = mpsx_is_vector<A>>
struct mpsx_vector_of {
  typedef mpsx_plain<A> type;
};
template <class A, class B>
struct mpsx_vector_of<A, B, false> {
  typedef mpsx_plain<B> type;
};
template <class A, class B>
using mpsx_common = typename mpsx_vector_of<A, B>::type;
template <class X>
constexpr bool mpsx_is_operand = mpsx_is_vector<X> || is_arithmetic_v<X> || __is_enum(X);
// Whether at least one operand is a vector, and the other is a vector or a scalar.
template <class A, class B>
constexpr bool mpsx_any_vector = (mpsx_is_vector<A> && mpsx_is_operand<B>) || (mpsx_is_vector<B> && mpsx_is_operand<A>);
template <class V, class X>
constexpr void mpsx_check_operand() {
  static_assert(!mpsx_is_vector<X> || is_same_v<typename mpsx_vector<X>::scalar, typename mpsx_vector<V>::scalar>,
                "vector operands have different component types");
  static_assert(!mpsx_is_vector<X> || mpsx_vector<X>::size == mpsx_vector<V>::size,
                "vector operands have different numbers of components");
}

#define MPSX_VECTOR_BINARY(OP, SCALAR_OP)                                                  \
  template <class A, class B, class = enable_if_t<mpsx_any_vector<A, B>>>                  \
  MPSX_FN constexpr auto operator OP(const A& a, const B& b) {                             \
    typedef mpsx_common<A, B> V;                                                           \
    typedef typename mpsx_vector<V>::scalar S;                                             \
    mpsx_check_operand<V, A>(), mpsx_check_operand<V, B>();                                \
    V r(S(0));                                                                             \
    MPSX_EACH(mpsx_vector<V>::size,                                                        \
              r.s[i] = S(S(mpsx_component(a, i)) SCALAR_OP S(mpsx_component(b, i))))       \
    return r;                                                                              \
  }                                                                                        \
  template <class A, class B, class = enable_if_t<mpsx_is_vector<A> && mpsx_is_operand<B>>> \
  MPSX_FN constexpr A& operator OP##=(A& a, const B& b) {                                  \
    a = a OP b;                                                                            \
    return a;                                                                              \
  }
MPSX_VECTOR_BINARY(+, +)
MPSX_VECTOR_BINARY(-, -)
MPSX_VECTOR_BINARY(*, *)
MPSX_VECTOR_BINARY(/, / ::mpsx::safe /)
MPSX_VECTOR_BINARY(%, % ::mpsx::safe %)
MPSX_VECTOR_BINARY(&, &)
MPSX_VECTOR_BINARY(|, |)
MPSX_VECTOR_BINARY(^, ^)
MPSX_VECTOR_BINARY(<<, <<)
MPSX_VECTOR_BINARY(>>, >>)
#undef MPSX_VECTOR_BINARY

#define MPSX_VECTOR_COMPARE(OP)                                                              \
  template <class A, class B, class = enable_if_t<mpsx_any_vector<A, B>>>                    \
  MPSX_FN constexpr auto operator OP(const A& a, const B& b) {                               \
    typedef mpsx_common<A, B> V;                                                             \
    typedef typename mpsx_vector<V>::scalar S;                                               \
    mpsx_check_operand<V, A>(), mpsx_check_operand<V, B>();                                  \
    vec<bool, mpsx_vector<V>::size> r(false);                                                \
    MPSX_EACH(mpsx_vector<V>::size, r.s[i] = S(mpsx_component(a, i)) OP S(mpsx_component(b, i))) \
    return r;                                                                                \
  }
MPSX_VECTOR_COMPARE(==)
MPSX_VECTOR_COMPARE(!=)
MPSX_VECTOR_COMPARE(<)
MPSX_VECTOR_COMPARE(<=)
MPSX_VECTOR_COMPARE(>)
MPSX_VECTOR_COMPARE(>=)
MPSX_VECTOR_COMPARE(&&)
MPSX_VECTOR_COMPARE(||)
#undef MPSX_VECTOR_COMPARE

// Applies f to every component. R is the component type of the result.
template <class R, class F, class A, class... B>
MPSX_FN constexpr auto mpsx_map(F f, const A& a, const B&... b) {
  constexpr int size = mpsx_vector<A>::size;
  vec<R, size> r(R(0));
  MPSX_EACH(size, r.s[i] = f(a.get(i), mpsx_component(b, i)...))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto operator-(const A& a) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<S>([](S x) { return S(-x); }, a);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto operator+(const A& a) {
  return mpsx_plain<A>(a);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto operator~(const A& a) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<S>([](S x) { return S(~x); }, a);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto operator!(const A& a) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<bool>([](S x) { return !x; }, a);
}
#define MPSX_VECTOR_STEP(OP)                                       \
  template <class A, class = enable_if_t<mpsx_is_vector<A>>>       \
  MPSX_FN constexpr A& operator OP##OP(A& a) {                     \
    typedef typename mpsx_vector<A>::scalar S;                     \
    return a = a OP S(1);                                          \
  }                                                                \
  template <class A, class = enable_if_t<mpsx_is_vector<A>>>       \
  MPSX_FN constexpr auto operator OP##OP(A& a, int) {              \
    typedef typename mpsx_vector<A>::scalar S;                     \
    const mpsx_plain<A> old(a);                                    \
    a = a OP S(1);                                                 \
    return old;                                                    \
  }
MPSX_VECTOR_STEP(+)
MPSX_VECTOR_STEP(-)
#undef MPSX_VECTOR_STEP
}  // namespace metal
