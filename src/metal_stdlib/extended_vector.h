// <metal_extended_vector>: vec<T, 8> and vec<T, 16>. Their components can be accessed only by index.
#pragma once

namespace metal {
#define MPSX_EXTENDED_VECTOR(N)                                                               \
  template <class T>                                                                          \
  struct mpsx_vector<vec<T, N>> {                                                             \
    static constexpr bool is = false; /* functions of vectors have at most four components */ \
    static constexpr int size = 1;                                                            \
    typedef vec<T, N> scalar;                                                                 \
  };                                                                                          \
  template <class T>                                                                          \
  struct alignas(N * sizeof(T)) vec<T, N> {                                                   \
    T s[N];                                                                                   \
    vec() = default;                                                                          \
    MPSX_FN constexpr vec(T value) : s{} {                                                    \
      for (int i = 0; i < N; ++i) s[i] = value;                                               \
    }                                                                                         \
    template <class U>                                                                        \
    MPSX_FN explicit constexpr vec(const vec<U, N>& other) : s{} {                            \
      for (int i = 0; i < N; ++i) s[i] = T(other.s[i]);                                       \
    }                                                                                         \
    MPSX_FN constexpr T& operator[](int i) { return MPSX_ELEMENT(s, N, i); }                  \
    MPSX_FN constexpr const T& operator[](int i) const { return MPSX_ELEMENT(s, N, i); }      \
  };
MPSX_EXTENDED_VECTOR(8)
MPSX_EXTENDED_VECTOR(16)
#undef MPSX_EXTENDED_VECTOR

#define MPSX_EXTENDED_OPERATOR(OP)                                                  \
  template <class T, int N, class = enable_if_t<(N > 4)>>                           \
  MPSX_FN constexpr vec<T, N> operator OP(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<T, N> r;                                                                    \
    for (int i = 0; i < N; ++i) r.s[i] = T(a.s[i] OP b.s[i]);                       \
    return r;                                                                       \
  }                                                                                 \
  template <class T, int N, class = enable_if_t<(N > 4)>>                           \
  MPSX_FN constexpr vec<T, N> operator OP(const vec<T, N>& a, T b) {                \
    return a OP vec<T, N>(b);                                                       \
  }                                                                                 \
  template <class T, int N, class = enable_if_t<(N > 4)>>                           \
  MPSX_FN constexpr vec<T, N> operator OP(T a, const vec<T, N>& b) {                \
    return vec<T, N>(a) OP b;                                                       \
  }                                                                                 \
  template <class T, int N, class B, class = enable_if_t<(N > 4)>>                  \
  MPSX_FN constexpr vec<T, N>& operator OP## = (vec<T, N> & a, const B& b) {        \
    return a = a OP b;                                                              \
  }
MPSX_EXTENDED_OPERATOR(+)
MPSX_EXTENDED_OPERATOR(-)
MPSX_EXTENDED_OPERATOR(*)
MPSX_EXTENDED_OPERATOR(/)
#undef MPSX_EXTENDED_OPERATOR
}  // namespace metal
