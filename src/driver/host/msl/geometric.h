// <metal_geometric>.
#pragma once

namespace metal {
template <class A, class B, class = enable_if_t<mpsx_is_vector<A> && mpsx_is_vector<B>>>
MPSX_FN auto dot(const A& a, const B& b) {
  typedef typename mpsx_vector<A>::scalar S;
  S r = a.get(0) * b.get(0);
  for (int i = 1; i < mpsx_vector<A>::size; ++i) r = S(r + a.get(i) * b.get(i));
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
template <class A, class B, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto distance(const A& a, const B& b) {
  return length(a - b);
}
template <class A, class B, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto distance_squared(const A& a, const B& b) {
  return length_squared(a - b);
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN auto normalize(const A& a) {
  return a * rsqrt(dot(a, a));
}
template <class A, class B, class = enable_if_t<mpsx_vector<A>::size == 3 && mpsx_vector<B>::size == 3>>
MPSX_FN auto cross(const A& a, const B& b) {
  typedef mpsx_plain<A> V;
  return V(a.get(1) * b.get(2) - a.get(2) * b.get(1), a.get(2) * b.get(0) - a.get(0) * b.get(2),
           a.get(0) * b.get(1) - a.get(1) * b.get(0));
}
}  // namespace metal
