// <metal_relational>.
#pragma once

namespace metal {
MPSX_FN constexpr bool any(bool x) { return x; }
MPSX_FN constexpr bool all(bool x) { return x; }
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr bool any(const A& a) {
  bool r = false;
  MPSX_EACH(mpsx_vector<A>::size, r = r || a.get(i))
  return r;
}
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr bool all(const A& a) {
  bool r = true;
  MPSX_EACH(mpsx_vector<A>::size, r = r && a.get(i))
  return r;
}
}  // namespace metal
