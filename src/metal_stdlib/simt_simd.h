// SIMD-group functions for SIMT kernels, which execute every lane (MSL specification 3.2, section 6.9.2).
#pragma once

namespace metal {
#define MPSX_LANES(T, v, NAME)                         \
  typedef mpsx::lane_value_t<T> V;                     \
  const V mpsx_mine(v);                                \
  const mpsx::lanes_of<V> g(mpsx_mine, NAME, mpsx_file, mpsx_line);

// Reductions, which return the same result in all active lanes.
#define MPSX_SIMD_FOLD(NAME, EXPRESSION)                                                          \
  template <class T>                                                                              \
  MPSX_FN mpsx::lane_value_t<T> simd_##NAME(const T& v, MPSX_CALL_SITE) {                             \
    MPSX_LANES(T, v, "simd_" #NAME)                                                               \
    return g.fold_active([](V a, V b) MPSX_INLINE { return EXPRESSION; });                        \
  }
MPSX_SIMD_FOLD(sum, a + b)
MPSX_SIMD_FOLD(product, a* b)
MPSX_SIMD_FOLD(max, max(a, b))
MPSX_SIMD_FOLD(min, min(a, b))
MPSX_SIMD_FOLD(and, a& b)
MPSX_SIMD_FOLD(or, a | b)
MPSX_SIMD_FOLD(xor, a ^ b)
#undef MPSX_SIMD_FOLD

// Prefix scans over the active lanes before this lane, including this lane if the scan is inclusive.
#define MPSX_SIMD_PREFIX(NAME, IDENTITY, OPERATOR)                                                     \
  template <class T>                                                                                   \
  MPSX_FN mpsx::lane_value_t<T> simd_prefix_inclusive_##NAME(const T& v, MPSX_CALL_SITE) {                 \
    MPSX_LANES(T, v, "simd_prefix_inclusive_" #NAME)                                                   \
    return g.fold(g.active & (2u << g.lane) - 1u, [](V a, V b) MPSX_INLINE { return a OPERATOR b; }); \
  }                                                                                                    \
  template <class T>                                                                                   \
  MPSX_FN mpsx::lane_value_t<T> simd_prefix_exclusive_##NAME(const T& v, MPSX_CALL_SITE) {                 \
    MPSX_LANES(T, v, "simd_prefix_exclusive_" #NAME)                                                   \
    const uint below = g.active & (1u << g.lane) - 1u;                                            \
    const V folded = g.fold(below, [](V a, V b) MPSX_INLINE { return a OPERATOR b; });               \
    return below ? folded : V(IDENTITY);                                                               \
  }
MPSX_SIMD_PREFIX(sum, 0, +)
MPSX_SIMD_PREFIX(product, 1, *)
#undef MPSX_SIMD_PREFIX

class simd_vote {
 public:
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t v) : v_(v) {}
  explicit constexpr operator vote_t() const { return v_; }
  bool any() const { return v_ != 0; }
  bool all() const { return (v_ & kAll) == kAll; }

 private:
  static constexpr vote_t kAll = (vote_t(1) << MPSX_SIMD_WIDTH) - 1;
  vote_t v_;
};
MPSX_FN uint mpsx_simd_ballot(bool v, const char* name, const char* file, int line) {
  const mpsx::lanes_of<bool> g(v, name, file, line);
  return g.votes();
}
MPSX_FN uint mpsx_simd_active(const char* name, const char* file, int line, uint& lane) {
  const mpsx::lanes_of<bool> g(true, name, file, line);
  lane = g.lane;
  return g.active;
}
MPSX_FN simd_vote simd_ballot(bool v, MPSX_CALL_SITE) {
  return simd_vote(mpsx_simd_ballot(v, "simd_ballot", mpsx_file, mpsx_line));
}
MPSX_FN bool simd_any(bool v, MPSX_CALL_SITE) { return mpsx_simd_ballot(v, "simd_any", mpsx_file, mpsx_line) != 0; }
MPSX_FN bool simd_all(bool v, MPSX_CALL_SITE) { return mpsx_simd_ballot(!v, "simd_all", mpsx_file, mpsx_line) == 0; }
MPSX_FN simd_vote simd_active_threads_mask(MPSX_CALL_SITE) {
  uint lane;
  return simd_vote(mpsx_simd_active("simd_active_threads_mask", mpsx_file, mpsx_line, lane));
}
MPSX_FN bool simd_is_first(MPSX_CALL_SITE) {
  uint lane;
  const uint active = mpsx_simd_active("simd_is_first", mpsx_file, mpsx_line, lane);
  return lane == uint(__builtin_ctz(active));
}
MPSX_FN bool simd_is_helper_thread() { return false; }

template <class T>
MPSX_FN mpsx::lane_value_t<T> simd_broadcast_first(const T& v, MPSX_CALL_SITE) {
  MPSX_LANES(T, v, "simd_broadcast_first")
  return g.get(uint(__builtin_ctz(g.active)));
}
// `s` is the lane whose value is returned.
#define MPSX_SIMD_TAKE(NAME, SOURCE, RESULT)                                           \
  template <class T>                                                                   \
  MPSX_FN mpsx::lane_value_t<T> simd_##NAME(const T& v, ushort n, MPSX_CALL_SITE) {        \
    MPSX_LANES(T, v, "simd_" #NAME)                                                    \
    const uint s = SOURCE;                                                             \
    return RESULT;                                                                     \
  }
MPSX_SIMD_TAKE(broadcast, n, g.take(s))
MPSX_SIMD_TAKE(shuffle, n, g.take(s))
MPSX_SIMD_TAKE(shuffle_xor, g.lane ^ n, g.take(s))
MPSX_SIMD_TAKE(shuffle_down, g.lane + n, g.take(s, mpsx_mine))
MPSX_SIMD_TAKE(shuffle_up, g.lane - n, g.take(s, mpsx_mine))
MPSX_SIMD_TAKE(shuffle_rotate_down, (g.lane + n) % MPSX_SIMD_WIDTH, g.take(s))
MPSX_SIMD_TAKE(shuffle_rotate_up, (g.lane - n) % MPSX_SIMD_WIDTH, g.take(s))
#undef MPSX_SIMD_TAKE

// A lane's data, and the fill value that it provides to a lane whose source is out of range. Such a lane takes its fill
// value from the opposite end of the SIMD group.
template <class V>
struct mpsx_filled {
  V data, fill;
};
template <class V>
MPSX_FN V mpsx_take_filled(const mpsx::lanes_of<mpsx_filled<V>>& g, uint source, bool fill) {
  const mpsx_filled<V> taken = g.take(source);
  return fill ? taken.fill : taken.data;
}
#define MPSX_SIMD_FILL(NAME, STEP, CROSSED)                                                                        \
  template <class T, class F>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> simd_shuffle_and_fill_##NAME(const T& v, const F& fill, ushort n, ushort modulo,   \
                                                             MPSX_CALL_SITE) {                                         \
    typedef mpsx::lane_value_t<T> V;                                                                               \
    const mpsx_filled<V> mine = {V(v), V(fill)};                                                                   \
    const mpsx::lanes_of<mpsx_filled<V>> g(mine, "simd_shuffle_and_fill_" #NAME, mpsx_file, mpsx_line);            \
    const uint at = g.lane % modulo;                                                                               \
    return mpsx_take_filled<V>(g, g.lane - at + (at STEP n) % modulo, CROSSED);                                    \
  }                                                                                                                \
  template <class T, class F>                                                                                      \
  MPSX_FN mpsx::lane_value_t<T> simd_shuffle_and_fill_##NAME(const T& v, const F& fill, ushort n, MPSX_CALL_SITE) {    \
    return simd_shuffle_and_fill_##NAME(v, fill, n, ushort(MPSX_SIMD_WIDTH), mpsx_file, mpsx_line);                \
  }
MPSX_SIMD_FILL(down, +, at + n >= modulo)
MPSX_SIMD_FILL(up, -, at < n)
#undef MPSX_SIMD_FILL
}  // namespace metal
