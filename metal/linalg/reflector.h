// Householder reflectors, and the triangular factor T of a block of them, Q = I - V T V^H
// (R. Schreiber, C. Van Loan, "A storage-efficient WY representation for products of Householder transformations").
#pragma once

#include "linalg/field.h"

enum : uint { kTPitch = kPanel + 1 };

// A column of T at a time: T[i][j] = -tau[j] * sum of T[i][l] * gram[l][j] over i <= l < j, with gram = V^H V.
template <typename T>
inline void block_factor(threadgroup T* t, threadgroup const T* gram, threadgroup const T* tau, uint columns,
                         device T* out, GroupThread g) {
  for (uint j = 0; j < columns; ++j) {
    for (uint i = g.index; i < columns; i += g.count) {
      T sum = field_number<T>(0.0f, 0.0f);
      for (uint l = i; l < j; ++l) sum = product_sum(t[i * kTPitch + l], gram[l * kTPitch + j], sum);
      t[i * kTPitch + j] = i == j ? tau[j] : -product(tau[j], sum);  // 0 below the diagonal
    }
  }
  tg_barrier();
  for (uint e = g.index; e < columns * columns; e += g.count)
    out[e / columns * kPanel + e % columns] = t[e / columns * kTPitch + e % columns];
}

// beta and tau of LAPACK's larfg: H = I - tau v v^H with H^H (alpha, x) = (beta, 0), v = (1, x / (alpha - beta)).
template <typename T>
struct Reflector {
  T tau, scale;
  float beta;
};
template <typename T>
inline Reflector<T> reflector(T alpha, float norm) {
  const float real = real_part(alpha), imaginary = imaginary_part(alpha);
  if (norm == 0.0f && imaginary == 0.0f) return {field_number<T>(0.0f, 0.0f), field_number<T>(1.0f, 0.0f), real};
  const float length = hypotenuse(hypotenuse(real, imaginary), norm), beta = real < 0.0f ? length : -length;
  const T one = field_number<T>(1.0f, 0.0f);
  return {field_number<T>((beta - real) / beta, -imaginary / beta),
          quotient(one, field_number<T>(real - beta, imaginary)), beta};
}
