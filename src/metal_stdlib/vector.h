// vec<T, N> and packed_vec<T, N>: components, swizzles and constructors. Operators are in vector_ops.h.
#pragma once

#include "swizzle_members.h"

namespace metal {
template <class T, int N>
struct vec;
template <class T, int N>
struct packed_vec;
// A swizzle overlays the components of a vector and behaves like a vector of the components with indices I. STORED is
// the number of components in memory.
template <class T, int STORED, int... I>
struct mpsx_swizzle;

// A subscript that selects several components, for swizzles in constant expressions.
template <int... I>
struct mpsx_components {};

// Traits of vectors and swizzles: vector type, component type and number of components.
template <class X>
struct mpsx_vector {
  static constexpr bool is = false;
  static constexpr int size = 1;
  typedef X scalar;
};
template <class T, int N>
struct mpsx_vector_facts {
  static constexpr bool is = true;
  static constexpr int size = N;
  typedef T scalar;
  typedef vec<T, N> plain;
};
template <class T, int N>
struct mpsx_vector<vec<T, N>> : mpsx_vector_facts<T, N> {};
template <class T, int N>
struct mpsx_vector<packed_vec<T, N>> : mpsx_vector_facts<T, N> {};
template <class T, int STORED, int... I>
struct mpsx_vector<mpsx_swizzle<T, STORED, I...>> : mpsx_vector_facts<T, int(sizeof...(I))> {};
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

template <class T, int STORED, int... I>
struct mpsx_swizzle {
  T s[STORED];
  static constexpr int size = sizeof...(I);
  MPSX_FN constexpr T get(int i) const {
    constexpr int index[] = {I...};
    return s[index[i]];
  }
  MPSX_FN constexpr operator vec<T, size>() const { return vec<T, size>(s[I]...); }
  // Converts a swizzle to a vector. The translator inserts a call to this operator wherever a swizzle is read.
  MPSX_FN constexpr vec<T, size> operator()() const { return vec<T, size>(s[I]...); }
  MPSX_FN constexpr T operator[](int i) const { return get(i); }
  MPSX_FN constexpr mpsx_swizzle& operator=(const vec<T, size>& v) {
    int k = 0;
    ((s[I] = v.s[k++]), ...);
    return *this;
  }
  MPSX_FN constexpr mpsx_swizzle& operator=(const mpsx_swizzle& o) { return *this = vec<T, size>(o); }
};

// A scalar of any type converts implicitly to a vector (MSL specification 3.2, section 2.11). Conversions between
// vectors with different component types are explicit. A bfloat converts by way of T, so that a call of f(float) and
// f(float2) with a bfloat is not ambiguous.
#define MPSX_VECTOR_COMMON(TYPE, N)                                                                        \
  TYPE() = default;                                                                                        \
  MPSX_FN constexpr TYPE(T a) : s{} { fill(a); }                                                           \
  template <class A, class = enable_if_t<(is_arithmetic_v<A> || __is_enum(A)) && !is_same_v<A, T> &&       \
                                         !is_same_v<A, bfloat>>>                                           \
  MPSX_FN constexpr TYPE(A a) : s{} {                                                                      \
    fill(T(a));                                                                                            \
  }                                                                                                        \
  template <class X, class = enable_if_t<mpsx_is_vector<X> && mpsx_vector<X>::size == N &&                 \
                                         !is_same_v<typename mpsx_vector<X>::scalar, T>>, class = void>    \
  MPSX_FN explicit constexpr TYPE(const X& o) : s{} {                                                      \
    MPSX_EACH(N, s[i] = T(o.get(i)))                                                                       \
  }                                                                                                        \
  template <class A, class B, class... C,                                                                  \
            class = enable_if_t<mpsx_vector<A>::size + mpsx_vector<B>::size +                              \
                                    (0 + ... + mpsx_vector<C>::size) == N>>                                \
  MPSX_FN constexpr TYPE(const A& a, const B& b, const C&... c) : s{} {                                    \
    int k = 0;                                                                                             \
    append(k, a), append(k, b), (append(k, c), ...);                                                       \
  }                                                                                                        \
  MPSX_FN constexpr void fill(T a) {                                                                       \
    MPSX_EACH(N, s[i] = a)                                                                                 \
  }                                                                                                        \
  template <class X>                                                                                       \
  MPSX_FN constexpr void append(int& k, const X& x) {                                                      \
    MPSX_EACH(mpsx_vector<X>::size, s[k++] = T(mpsx_component(x, i)))                                      \
  }                                                                                                        \
  MPSX_FN constexpr T get(int i) const { return s[i]; }                                                    \
  MPSX_FN constexpr T& operator[](int i) { return MPSX_ELEMENT(s, N, i); }                                 \
  MPSX_FN constexpr const T& operator[](int i) const { return MPSX_ELEMENT(s, N, i); }                     \
  template <int... I>                                                                                      \
  MPSX_FN constexpr vec<T, int(sizeof...(I))> operator[](mpsx_components<I...>) const {                    \
    return vec<T, int(sizeof...(I))>(s[I]...);                                                             \
  }
// Define copy assignment, because the swizzle members delete the implicit one. gcc would not vectorize a defaulted one.
#define MPSX_VECTOR_COPY(TYPE, N)                    \
  constexpr TYPE(const TYPE&) = default;             \
  MPSX_FN constexpr TYPE& operator=(const TYPE& o) { \
    MPSX_EACH(N, s[i] = o.s[i])                      \
    return *this;                                    \
  }
#if defined(MPSX_SIMT) && defined(__clang__)
// Copies with a single memory access, as on a GPU. This is faster, and a profile then counts one access.
template <unsigned long BYTES>
struct mpsx_whole {};
template <>
struct mpsx_whole<16> {
  typedef unsigned type __attribute__((ext_vector_type(4), may_alias));
};
template <>
struct mpsx_whole<8> {
  typedef unsigned long type __attribute__((may_alias));
};
template <>
struct mpsx_whole<4> {
  typedef unsigned type __attribute__((may_alias));
};
template <>
struct mpsx_whole<2> {
  typedef unsigned short type __attribute__((may_alias));
};
template <>
struct mpsx_whole<32> {
  typedef unsigned long type __attribute__((ext_vector_type(4), may_alias));
};
#define MPSX_ALIGNED_COPY(TYPE, N)                                                                              \
  MPSX_FN constexpr TYPE(const TYPE& o) : s{} { *this = o; }                                                    \
  MPSX_FN constexpr TYPE& operator=(const TYPE& o) {                                                            \
    if (N == 3 || __builtin_is_constant_evaluated()) {                                                          \
      MPSX_EACH(N, s[i] = o.s[i])                                                                               \
    } else {                                                                                                    \
      typedef typename mpsx_whole<sizeof(TYPE)>::type whole;                                                    \
      *reinterpret_cast<whole*>(this) = *reinterpret_cast<const whole*>(&o);                                    \
    }                                                                                                           \
    return *this;                                                                                               \
  }
#else
#define MPSX_ALIGNED_COPY MPSX_VECTOR_COPY
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"  // allow anonymous structs
#define MPSX_VECTOR(TYPE, N, STORED, ALIGNMENT, COPY, XYZW, RGBA) \
  template <class T>                                        \
  struct ALIGNMENT TYPE<T, N> {                             \
    union {                                                 \
      T s[STORED];                                          \
      struct { T XYZW; };                                   \
      struct { T RGBA; };                                   \
      MPSX_SWIZZLES(N, STORED)                              \
    };                                                      \
    COPY(TYPE, N)                                           \
    MPSX_VECTOR_COMMON(TYPE, N)
#define MPSX_COMMA ,
MPSX_VECTOR(vec, 2, 2, alignas(2 * sizeof(T)), MPSX_ALIGNED_COPY, x MPSX_COMMA y, r MPSX_COMMA g)
};
MPSX_VECTOR(vec, 3, 4, alignas(4 * sizeof(T)), MPSX_ALIGNED_COPY, x MPSX_COMMA y MPSX_COMMA z,
            r MPSX_COMMA g MPSX_COMMA b)
};
MPSX_VECTOR(vec, 4, 4, alignas(4 * sizeof(T)), MPSX_ALIGNED_COPY, x MPSX_COMMA y MPSX_COMMA z MPSX_COMMA w,
            r MPSX_COMMA g MPSX_COMMA b MPSX_COMMA a)
};
// A packed vector is aligned like its components. It converts implicitly to and from a vector.
#define MPSX_PACKED(N)                                                        \
  MPSX_FN constexpr packed_vec(const vec<T, N>& v) : s{} {                    \
    MPSX_EACH(N, s[i] = v.s[i])                                               \
  }                                                                           \
  MPSX_FN constexpr operator vec<T, N>() const {                              \
    vec<T, N> v(s[0]);                                                        \
    MPSX_EACH(N, v.s[i] = s[i])                                               \
    return v;                                                                 \
  }
MPSX_VECTOR(packed_vec, 2, 2, , MPSX_VECTOR_COPY, x MPSX_COMMA y, r MPSX_COMMA g)
  MPSX_PACKED(2)
};
MPSX_VECTOR(packed_vec, 3, 3, , MPSX_VECTOR_COPY, x MPSX_COMMA y MPSX_COMMA z, r MPSX_COMMA g MPSX_COMMA b)
  MPSX_PACKED(3)
};
MPSX_VECTOR(packed_vec, 4, 4, , MPSX_VECTOR_COPY, x MPSX_COMMA y MPSX_COMMA z MPSX_COMMA w,
            r MPSX_COMMA g MPSX_COMMA b MPSX_COMMA a)
  MPSX_PACKED(4)
};
#pragma GCC diagnostic pop
#undef MPSX_PACKED
#undef MPSX_COMMA
#undef MPSX_VECTOR
#undef MPSX_VECTOR_COMMON
#undef MPSX_VECTOR_COPY
#undef MPSX_ALIGNED_COPY

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
