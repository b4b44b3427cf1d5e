// <metal_matrix>: column-major matrices (MSL specification 3.2, sections 2.3 and 6.10).
#pragma once

namespace metal {
template <class T, int C, int R>
struct matrix {
  typedef vec<T, R> column;
  column columns[C];

  matrix() = default;
  // Creates a matrix with `diagonal` on the diagonal and zeros elsewhere.
  template <class A, class = enable_if_t<is_arithmetic_v<A>>>
  MPSX_FN explicit constexpr matrix(A diagonal) : columns{} {
    MPSX_EACH(C, if constexpr (i < R) columns[i].s[i] = T(diagonal))
  }
  template <class U, class = enable_if_t<!is_same_v<T, U>>>
  MPSX_FN explicit constexpr matrix(const matrix<U, C, R>& o) : columns{} {
    MPSX_EACH(C, columns[i] = column(o.columns[i]))
  }
  // Creates a matrix from C columns, which may be component lists.
  template <int N = C, class = enable_if_t<N == 2>>
  MPSX_FN constexpr matrix(column a, column b) : columns{a, b} {}
  template <int N = C, class = enable_if_t<N == 3>>
  MPSX_FN constexpr matrix(column a, column b, column c) : columns{a, b, c} {}
  template <int N = C, class = enable_if_t<N == 4>>
  MPSX_FN constexpr matrix(column a, column b, column c, column d) : columns{a, b, c, d} {}
  // Creates a matrix from C * R components in column order.
  template <class A, class B, class... More,
            class = enable_if_t<!mpsx_is_vector<A> && sizeof...(More) + 2 == C * R>>
  MPSX_FN constexpr matrix(const A& a, const B& b, const More&... more) : columns{} {
    int k = 0;
    append(k, a), append(k, b), (append(k, more), ...);
  }
  MPSX_FN constexpr column& operator[](int i) { return MPSX_ELEMENT(columns, C, i); }
  MPSX_FN constexpr const column& operator[](int i) const { return MPSX_ELEMENT(columns, C, i); }

 private:
  template <class X>
  MPSX_FN constexpr void append(int& k, const X& x) {
    columns[k / R].s[k % R] = T(x);
    ++k;
  }
};

template <class T, int C, int R>
MPSX_FN constexpr matrix<T, C, R> operator-(const matrix<T, C, R>& a) {
  matrix<T, C, R> r(T(0));
  MPSX_EACH(C, r.columns[i] = -a.columns[i])
  return r;
}
#define MPSX_MATRIX_SUM(OP)                                                                          \
  template <class T, int C, int R>                                                                   \
  MPSX_FN constexpr matrix<T, C, R> operator OP(const matrix<T, C, R>& a, const matrix<T, C, R>& b) { \
    matrix<T, C, R> r(T(0));                                                                         \
    MPSX_EACH(C, r.columns[i] = a.columns[i] OP b.columns[i])                                        \
    return r;                                                                                        \
  }                                                                                                  \
  template <class T, int C, int R>                                                                   \
  MPSX_FN constexpr matrix<T, C, R>& operator OP##=(matrix<T, C, R>& a, const matrix<T, C, R>& b) {  \
    return a = a OP b;                                                                               \
  }
MPSX_MATRIX_SUM(+)
MPSX_MATRIX_SUM(-)
#undef MPSX_MATRIX_SUM
// An operation with a scalar applies to every component.
#define MPSX_MATRIX_SCALE(OP)                                                                        \
  template <class T, int C, int R, class A, class = enable_if_t<is_arithmetic_v<A>>>                 \
  MPSX_FN constexpr matrix<T, C, R> operator OP(const matrix<T, C, R>& a, A b) {                     \
    matrix<T, C, R> r(T(0));                                                                         \
    MPSX_EACH(C, r.columns[i] = a.columns[i] OP T(b))                                                \
    return r;                                                                                        \
  }                                                                                                  \
  template <class T, int C, int R, class A, class = enable_if_t<is_arithmetic_v<A>>>                 \
  MPSX_FN constexpr matrix<T, C, R>& operator OP##=(matrix<T, C, R>& a, A b) {                       \
    return a = a OP b;                                                                               \
  }
MPSX_MATRIX_SCALE(*)
MPSX_MATRIX_SCALE(/)
#undef MPSX_MATRIX_SCALE
template <class T, int C, int R, class A, class = enable_if_t<is_arithmetic_v<A>>>
MPSX_FN constexpr matrix<T, C, R> operator*(A a, const matrix<T, C, R>& b) {
  return b * a;
}
// Sums the products in column order. Each product is rounded before it is added.
template <class T, int C, int R, class V, class = enable_if_t<mpsx_vector<V>::size == C>, class = mpsx_plain<V>>
MPSX_FN constexpr vec<T, R> operator*(const matrix<T, C, R>& a, const V& v) {
  vec<T, R> r = a.columns[0] * v.get(0);
  MPSX_EACH(C, if (i) r += a.columns[i] * v.get(i))
  return r;
}
template <class T, int C, int R, class V, class = enable_if_t<mpsx_vector<V>::size == R>, class = mpsx_plain<V>>
MPSX_FN constexpr vec<T, C> operator*(const V& v, const matrix<T, C, R>& a) {
  vec<T, C> r(T(0));
  for (int i = 0; i < C; ++i) {
    T s = v.get(0) * a.columns[i].s[0];
    for (int j = 1; j < R; ++j) s = T(s + v.get(j) * a.columns[i].s[j]);
    r.s[i] = s;
  }
  return r;
}
template <class T, int K, int R, int C>
MPSX_FN constexpr matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> r(T(0));
  MPSX_EACH(C, r.columns[i] = a * b.columns[i])
  return r;
}
template <class T, int N>
MPSX_FN constexpr matrix<T, N, N>& operator*=(matrix<T, N, N>& a, const matrix<T, N, N>& b) {
  return a = a * b;
}
template <class T, int C, int R>
MPSX_FN constexpr bool operator==(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  bool r = true;
  for (int i = 0; i < C; ++i)
    for (int j = 0; j < R; ++j) r = r && a.columns[i].s[j] == b.columns[i].s[j];
  return r;
}
template <class T, int C, int R>
MPSX_FN constexpr bool operator!=(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  return !(a == b);
}

template <class T, int C, int R>
MPSX_FN constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& a) {
  matrix<T, R, C> r(T(0));
  for (int i = 0; i < C; ++i)
    for (int j = 0; j < R; ++j) r.columns[j].s[i] = a.columns[i].s[j];
  return r;
}
// Laplace expansion along the first column.
template <class T, int N>
MPSX_FN constexpr T determinant(const matrix<T, N, N>& a) {
  if constexpr (N == 2) {
    return T(a.columns[0].s[0] * a.columns[1].s[1] - a.columns[1].s[0] * a.columns[0].s[1]);
  } else {
    T sum(0);
    for (int k = 0; k < N; ++k) {
      matrix<T, N - 1, N - 1> minor(T(0));
      for (int i = 1; i < N; ++i)
        for (int j = 0, at = 0; j < N; ++j)
          if (j != k) minor.columns[i - 1].s[at++] = a.columns[i].s[j];
      const T term = T(a.columns[0].s[k] * determinant(minor));
      sum = T(k % 2 ? sum - term : sum + term);
    }
    return sum;
  }
}

#define MPSX_MATRIX_NAMES(T)                                                                                       \
  typedef matrix<T, 2, 2> T##2x2;                                                                                  \
  typedef matrix<T, 2, 3> T##2x3;                                                                                  \
  typedef matrix<T, 2, 4> T##2x4;                                                                                  \
  typedef matrix<T, 3, 2> T##3x2;                                                                                  \
  typedef matrix<T, 3, 3> T##3x3;                                                                                  \
  typedef matrix<T, 3, 4> T##3x4;                                                                                  \
  typedef matrix<T, 4, 2> T##4x2;                                                                                  \
  typedef matrix<T, 4, 3> T##4x3;                                                                                  \
  typedef matrix<T, 4, 4> T##4x4;
MPSX_MATRIX_NAMES(float)
MPSX_MATRIX_NAMES(half)
#undef MPSX_MATRIX_NAMES
}  // namespace metal
