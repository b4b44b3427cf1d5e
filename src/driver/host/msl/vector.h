// vec<T, N>: components, swizzles, constructors. Operators are in vector_ops.h.
#pragma once

#include "swizzle_members.h"

namespace metal {
template <class T, int N>
struct vec;
// A swizzle overlays the components of a vec<T, N> and behaves as a vector of the components I.
template <class T, int N, int... I>
struct mpsx_swizzle;

// What is a vector (or a swizzle of one), its plain type, its components and their number.
template <class X>
struct mpsx_vector {
  static constexpr bool is = false;
  static constexpr int size = 1;
  typedef X scalar;
};
template <class T, int N>
struct mpsx_vector<vec<T, N>> {
  static constexpr bool is = true;
  static constexpr int size = N;
  typedef T scalar;
  typedef vec<T, N> plain;
};
template <class T, int N, int... I>
struct mpsx_vector<mpsx_swizzle<T, N, I...>> {
  static constexpr bool is = true;
  static constexpr int size = sizeof...(I);
  typedef T scalar;
  typedef vec<T, size> plain;
};
template <class X>
struct mpsx_vector<const X> : mpsx_vector<X> {};
template <class X>
struct mpsx_vector<X&> : mpsx_vector<X> {};
template <class X>
constexpr bool mpsx_is_vector = mpsx_vector<X>::is;
template <class X>
using mpsx_plain = typename mpsx_vector<X>::plain;
template <class X>
MPSX_FN constexpr auto mpsx_component(const X& x, int i) {
  if constexpr (mpsx_is_vector<X>)
    return x.get(i);
  else
    return x;
}

template <class T, int N, int... I>
struct mpsx_swizzle {
  T s[N == 3 ? 4 : N];
  static constexpr int size = sizeof...(I);
  MPSX_FN constexpr T get(int i) const {
    constexpr int index[] = {I...};
    return s[index[i]];
  }
  MPSX_FN constexpr operator vec<T, size>() const { return vec<T, size>(s[I]...); }
  MPSX_FN constexpr T operator[](int i) const { return get(i); }
  MPSX_FN mpsx_swizzle& operator=(const vec<T, size>& v) {
    int k = 0;
    ((s[I] = v.s[k++]), ...);
    return *this;
  }
  MPSX_FN mpsx_swizzle& operator=(const mpsx_swizzle& o) { return *this = vec<T, size>(o); }
};

#define MPSX_VECTOR_COMMON(N)                                                                           \
  vec() = default;                                                                                      \
  constexpr vec(const vec&) = default;                                                                  \
  MPSX_VECTOR_COPY(N)                                                                                   \
  template <class X, class = enable_if_t<mpsx_is_vector<X> && mpsx_vector<X>::size == N &&              \
                                         !is_same_v<typename mpsx_vector<X>::scalar, T>>, class = void> \
  MPSX_FN explicit constexpr vec(const X& o) : s{} {                                                    \
    for (int i = 0; i < N; ++i) s[i] = T(o.get(i));                                                     \
  }                                                                                                     \
  template <class A, class B, class... C,                                                               \
            class = enable_if_t<mpsx_vector<A>::size + mpsx_vector<B>::size +                           \
                                    (0 + ... + mpsx_vector<C>::size) == N>>                             \
  MPSX_FN constexpr vec(const A& a, const B& b, const C&... c) : s{} {                                  \
    int k = 0;                                                                                          \
    append(k, a), append(k, b), (append(k, c), ...);                                                    \
  }                                                                                                     \
  template <class X>                                                                                    \
  MPSX_FN constexpr void append(int& k, const X& x) {                                                   \
    for (int i = 0; i < mpsx_vector<X>::size; ++i) s[k++] = T(mpsx_component(x, i));                    \
  }                                                                                                     \
  MPSX_FN constexpr T get(int i) const { return s[i]; }                                                 \
  MPSX_FN constexpr T& operator[](int i) { return s[i]; }                                               \
  MPSX_FN constexpr const T& operator[](int i) const { return s[i]; }
// Written out since the swizzles' assignment is; gcc would not vectorise the implicit one either.
#define MPSX_VECTOR_COPY(N)                        \
  MPSX_FN constexpr vec& operator=(const vec& o) { \
    for (int i = 0; i < N; ++i) s[i] = o.s[i];     \
    return *this;                                  \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"  // anonymous structs
template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    T s[2];
    struct { T x, y; };
    struct { T r, g; };
    MPSX_SWIZZLES(2)
  };
  MPSX_VECTOR_COMMON(2)
  MPSX_FN constexpr vec(T a) : s{a, a} {}
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    T s[4];
    struct { T x, y, z; };
    struct { T r, g, b; };
    MPSX_SWIZZLES(3)
  };
  MPSX_VECTOR_COMMON(3)
  MPSX_FN constexpr vec(T a) : s{a, a, a} {}
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  union {
    T s[4];
    struct { T x, y, z, w; };
    struct { T r, g, b, a; };
    MPSX_SWIZZLES(4)
  };
  MPSX_VECTOR_COMMON(4)
  MPSX_FN constexpr vec(T v) : s{v, v, v, v} {}
};
#pragma GCC diagnostic pop
#undef MPSX_VECTOR_COMMON
#undef MPSX_VECTOR_COPY

// A vector that is aligned as its components are.
template <class T, int N>
struct packed_vec {
  T s[N];
  packed_vec() = default;
  MPSX_FN constexpr packed_vec(const vec<T, N>& v) : s{} {
    for (int i = 0; i < N; ++i) s[i] = v.s[i];
  }
  template <class... A, class = enable_if_t<sizeof...(A) == N>>
  MPSX_FN constexpr packed_vec(A... a) : s{T(a)...} {}
  MPSX_FN constexpr operator vec<T, N>() const {
    vec<T, N> v(s[0]);
    for (int i = 1; i < N; ++i) v.s[i] = s[i];
    return v;
  }
  MPSX_FN constexpr T get(int i) const { return s[i]; }
  MPSX_FN constexpr T& operator[](int i) { return s[i]; }
  MPSX_FN constexpr const T& operator[](int i) const { return s[i]; }
};
template <class T, int N>
struct mpsx_vector<packed_vec<T, N>> : mpsx_vector<vec<T, N>> {};

#define MPSX_VECTOR_NAMES(T)                                                   \
  typedef vec<T, 2> T##2;                                                      \
  typedef vec<T, 3> T##3;                                                      \
  typedef vec<T, 4> T##4;                                                      \
  typedef packed_vec<T, 2> packed_##T##2;                                      \
  typedef packed_vec<T, 3> packed_##T##3;                                      \
  typedef packed_vec<T, 4> packed_##T##4;
MPSX_VECTOR_NAMES(bool)
MPSX_VECTOR_NAMES(char)
MPSX_VECTOR_NAMES(uchar)
MPSX_VECTOR_NAMES(short)
MPSX_VECTOR_NAMES(ushort)
MPSX_VECTOR_NAMES(int)
MPSX_VECTOR_NAMES(uint)
MPSX_VECTOR_NAMES(long)
MPSX_VECTOR_NAMES(ulong)
MPSX_VECTOR_NAMES(half)
MPSX_VECTOR_NAMES(bfloat)
MPSX_VECTOR_NAMES(float)
#undef MPSX_VECTOR_NAMES
}  // namespace metal
