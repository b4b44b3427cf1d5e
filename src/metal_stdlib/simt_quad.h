// Quad-group functions. A quad group consists of four adjacent lanes of a SIMD group (MSL specification 3.2, section
// 6.9.3).
#pragma once

namespace metal {
#define MPSX_QUAD_LANES(T, v, NAME)                    \
  MPSX_LANES(T, v, NAME)                               \
  const uint first = g.lane & ~3u, at = g.lane & 3u;   \
  const uint active = g.active & 15u << first;    \
  (void)at, (void)active;

#define MPSX_QUAD_FOLD(NAME, EXPRESSION)                                              \
  template <class T>                                                                  \
  MPSX_FN mpsx::lane_value_t<T> quad_##NAME(const T& v, MPSX_CALL_SITE) {                 \
    MPSX_QUAD_LANES(T, v, "quad_" #NAME)                                              \
    return g.fold(active, [](V a, V b) MPSX_INLINE { return EXPRESSION; });         \
  }
MPSX_QUAD_FOLD(sum, a + b)
MPSX_QUAD_FOLD(product, a* b)
MPSX_QUAD_FOLD(max, max(a, b))
MPSX_QUAD_FOLD(min, min(a, b))
MPSX_QUAD_FOLD(and, a& b)
MPSX_QUAD_FOLD(or, a | b)
MPSX_QUAD_FOLD(xor, a ^ b)
#undef MPSX_QUAD_FOLD

#define MPSX_QUAD_PREFIX(NAME, IDENTITY, OPERATOR)                                                        \
  template <class T>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> quad_prefix_inclusive_##NAME(const T& v, MPSX_CALL_SITE) {                    \
    MPSX_QUAD_LANES(T, v, "quad_prefix_inclusive_" #NAME)                                                 \
    return g.fold(active & (2u << g.lane) - 1u, [](V a, V b) MPSX_INLINE { return a OPERATOR b; });     \
  }                                                                                                       \
  template <class T>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> quad_prefix_exclusive_##NAME(const T& v, MPSX_CALL_SITE) {                    \
    MPSX_QUAD_LANES(T, v, "quad_prefix_exclusive_" #NAME)                                                 \
    const uint below = active & (1u << g.lane) - 1u;                                                      \
    const V folded = g.fold(below, [](V a, V b) MPSX_INLINE { return a OPERATOR b; });                  \
    return below ? folded : V(IDENTITY);                                                                  \
  }
MPSX_QUAD_PREFIX(sum, 0, +)
MPSX_QUAD_PREFIX(product, 1, *)
#undef MPSX_QUAD_PREFIX

class quad_vote {
 public:
  typedef ushort vote_t;
  explicit constexpr quad_vote(vote_t v) : v_(v) {}
  explicit constexpr operator vote_t() const { return v_; }
  bool any() const { return v_ != 0; }
  bool all() const { return (v_ & 15) == 15; }

 private:
  vote_t v_;
};
// Returns the votes of the quad group's active lanes in bits 0 to 3. Sets `lanes` to the mask of active lanes, and `me`
// to this lane's index in the quad group.
MPSX_FN uint mpsx_quad_ballot(bool v, const char* name, const char* mpsx_file, int mpsx_line, uint& lanes, uint& me) {
  MPSX_QUAD_LANES(bool, v, name)
  lanes = active >> first;
  me = at;
  return (g.votes() & active) >> first;
}
MPSX_FN quad_vote quad_ballot(bool v, MPSX_CALL_SITE) {
  uint lanes, me;
  return quad_vote(ushort(mpsx_quad_ballot(v, "quad_ballot", mpsx_file, mpsx_line, lanes, me)));
}
MPSX_FN bool quad_any(bool v, MPSX_CALL_SITE) {
  uint lanes, me;
  return mpsx_quad_ballot(v, "quad_any", mpsx_file, mpsx_line, lanes, me) != 0;
}
MPSX_FN bool quad_all(bool v, MPSX_CALL_SITE) {
  uint lanes, me;
  return mpsx_quad_ballot(!v, "quad_all", mpsx_file, mpsx_line, lanes, me) == 0;
}
MPSX_FN quad_vote quad_active_threads_mask(MPSX_CALL_SITE) {
  uint lanes, me;
  mpsx_quad_ballot(true, "quad_active_threads_mask", mpsx_file, mpsx_line, lanes, me);
  return quad_vote(ushort(lanes));
}
MPSX_FN bool quad_is_first(MPSX_CALL_SITE) {
  uint lanes, me;
  mpsx_quad_ballot(true, "quad_is_first", mpsx_file, mpsx_line, lanes, me);
  return me == uint(__builtin_ctz(lanes));
}
MPSX_FN bool quad_is_helper_thread() { return false; }

template <class T>
MPSX_FN mpsx::lane_value_t<T> quad_broadcast_first(const T& v, MPSX_CALL_SITE) {
  MPSX_QUAD_LANES(T, v, "quad_broadcast_first")
  return g.get(uint(__builtin_ctz(active)));
}
// `s` is the lane in the SIMD group that corresponds to lane SOURCE of the quad group. It is invalid if the quad group
// has no such lane.
#define MPSX_QUAD_TAKE(NAME, SOURCE, RESULT)                                           \
  template <class T>                                                                   \
  MPSX_FN mpsx::lane_value_t<T> quad_##NAME(const T& v, ushort n, MPSX_CALL_SITE) {        \
    MPSX_QUAD_LANES(T, v, "quad_" #NAME)                                               \
    const uint lane = SOURCE, s = lane > 3u ? MPSX_SIMD_WIDTH : first + lane;       \
    return RESULT;                                                                     \
  }
MPSX_QUAD_TAKE(broadcast, n, g.take(s))
MPSX_QUAD_TAKE(shuffle, n, g.take(s))
MPSX_QUAD_TAKE(shuffle_xor, at ^ n, g.take(s))
MPSX_QUAD_TAKE(shuffle_down, at + n, g.take(s, mpsx_mine))
MPSX_QUAD_TAKE(shuffle_up, at - n, g.take(s, mpsx_mine))
MPSX_QUAD_TAKE(shuffle_rotate_down, (at + n) & 3u, g.take(s))
MPSX_QUAD_TAKE(shuffle_rotate_up, (at - n) & 3u, g.take(s))
#undef MPSX_QUAD_TAKE

#define MPSX_QUAD_FILL(NAME, STEP, CROSSED)                                                                        \
  template <class T, class F>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> quad_shuffle_and_fill_##NAME(const T& v, const F& fill, ushort n, ushort modulo,   \
                                                             MPSX_CALL_SITE) {                                         \
    typedef mpsx::lane_value_t<T> V;                                                                               \
    const mpsx_filled<V> mine = {V(v), V(fill)};                                                                   \
    const mpsx::lanes_of<mpsx_filled<V>> g(mine, "quad_shuffle_and_fill_" #NAME, mpsx_file, mpsx_line);            \
    const uint at = g.lane % modulo;                                                                               \
    return mpsx_take_filled<V>(g, g.lane - at + (at STEP n) % modulo, CROSSED);                                    \
  }                                                                                                                \
  template <class T, class F>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> quad_shuffle_and_fill_##NAME(const T& v, const F& fill, ushort n, MPSX_CALL_SITE) {    \
    return quad_shuffle_and_fill_##NAME(v, fill, n, ushort(4), mpsx_file, mpsx_line);                              \
  }
MPSX_QUAD_FILL(down, +, at + n >= modulo)
MPSX_QUAD_FILL(up, -, at < n)
#undef MPSX_QUAD_FILL
#undef MPSX_QUAD_LANES
#undef MPSX_LANES
}  // namespace metal
