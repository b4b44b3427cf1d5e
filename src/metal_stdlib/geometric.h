// <metal_geometric> (MSL specification 3.2, section 6.7).
#pragma once

namespace metal {
template <class A, class B>
constexpr bool mpsx_same_size = mpsx_is_vector<A>&& mpsx_is_vector<B>&& mpsx_vector<A>::size == mpsx_vector<B>::size;
template <class A, class B, class = enable_if_t<mpsx_same_size<A, B>>>
MPSX_FN auto dot(const A& a, const B& b) {
  typedef typename mpsx_vector<A>::scalar S;
  S r = S(a.get(0) * b.get(0));
  MPSX_EACH(mpsx_vector<A>::size, if (i) r = S(r + a.get(i) * b.get(i)))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto length_squared(const A& a) {
  return dot(a, a);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto length(const A& a) {
  return sqrt(dot(a, a));
}
template <class A, class B, class = enable_if_t<mpsx_same_size<A, B>>>
MPSX_FN auto distance(const A& a, const B& b) {
  return length(a - b);
}
template <class A, class B, class = enable_if_t<mpsx_same_size<A, B>>>
MPSX_FN auto distance_squared(const A& a, const B& b) {
  return length_squared(a - b);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto normalize(const A& a) {
  return a * rsqrt(dot(a, a));
}
template <class A, class B, class = enable_if_t<mpsx_same_size<A, B> && mpsx_vector<A>::size == 3>>
MPSX_FN auto cross(const A& a, const B& b) {
  typedef mpsx_plain<A> V;
  return V(a.get(1) * b.get(2) - a.get(2) * b.get(1), a.get(2) * b.get(0) - a.get(0) * b.get(2),
           a.get(0) * b.get(1) - a.get(1) * b.get(0));
}
template <class N, class I, class R, class = enable_if_t<mpsx_same_size<N, I> && mpsx_same_size<N, R>>>
MPSX_FN auto faceforward(const N& n, const I& incident, const R& reference) {
  typedef mpsx_plain<N> V;
  return dot(reference, incident) < 0 ? V(n) : V(-n);
}
template <class I, class N, class = enable_if_t<mpsx_same_size<I, N>>>
MPSX_FN auto reflect(const I& incident, const N& n) {
  typedef typename mpsx_vector<I>::scalar S;
  return incident - S(2) * dot(n, incident) * n;
}
template <class I, class N, class E, class = enable_if_t<mpsx_same_size<I, N>>>
MPSX_FN auto refract(const I& incident, const N& n, E ratio) {
  typedef typename mpsx_vector<I>::scalar S;
  const S eta = S(ratio), d = dot(n, incident), k = S(S(1) - eta * eta * (S(1) - d * d));
  return k < S(0) ? mpsx_plain<I>(S(0)) : mpsx_plain<I>(eta * incident - (eta * d + sqrt(k)) * n);
}
}  // namespace metal
