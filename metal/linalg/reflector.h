// Householder reflectors, and the triangular factor T that combines a block of them into Q = I - V T V^H (R. Schreiber,
// C. Van Loan, "A storage-efficient WY representation for products of Householder transformations").
#pragma once

#include "linalg/field.h"

enum : uint { kTPitch = kPanel + 1 };

// Sums products with about twice the precision of float (T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot
// product"). With plain float sums in V^H V and in the recurrence for T, Q would be less accurate than when the
// reflectors are applied one at a time.
template <typename T> struct CompensatedSum;
template <>
struct CompensatedSum<float> {
  float sum, error;

  METAL_FUNC void add(float x) {
    const float total = sum + x, rounded = total - sum;
    error += (sum - (total - rounded)) + (x - rounded);
    sum = total;
  }
  METAL_FUNC void add_product(float a, float b) {
    const float x = a * b;
    error += fma(a, b, -x);
    add(x);
  }
  METAL_FUNC void add(CompensatedSum<float> other) {
    add(other.sum);
    error += other.error;
  }
  METAL_FUNC CompensatedSum<float> above(ushort distance) const {
    return {shuffle_down(sum, distance), shuffle_down(error, distance)};
  }
  METAL_FUNC float value() const { return sum + error; }
};
template <>
struct CompensatedSum<float2> {
  CompensatedSum<float> real, imaginary;

  METAL_FUNC void add_product(float2 a, float2 b) {
    real.add_product(a.x, b.x);
    real.add_product(-a.y, b.y);
    imaginary.add_product(a.x, b.y);
    imaginary.add_product(a.y, b.x);
  }
  METAL_FUNC void add(CompensatedSum<float2> other) {
    real.add(other.real);
    imaginary.add(other.imaginary);
  }
  METAL_FUNC CompensatedSum<float2> above(ushort distance) const {
    return {real.above(distance), imaginary.above(distance)};
  }
  METAL_FUNC float2 value() const { return float2(real.value(), imaginary.value()); }
};

// Computes the inner product x^H y over elements [first, end). The result is valid only in lane 0 of the SIMD group.
template <typename T>
inline T inner_product(device const T* x, device const T* y, long stride, uint first, uint end, SimdGroup s) {
  CompensatedSum<T> sum = {};
  for (uint i = first + s.lane; i < end; i += s.lanes)
    sum.add_product(conjugate(x[long(i) * stride]), y[long(i) * stride]);
  for (uint distance = 1; distance < s.lanes; distance *= 2) {
    const CompensatedSum<T> other = sum.above(ushort(distance));
    if (s.lane + distance < s.lanes) sum.add(other);
  }
  return sum.value();
}

// Computes T column by column: T[i][j] = -tau[j] * sum of T[i][l] * gram[l][j] over i <= l < j, where gram = V^H V.
template <typename T>
inline void block_factor(threadgroup T* t, threadgroup const T* gram, threadgroup const T* tau, uint columns,
                         device T* out, GroupThread g) {
  for (uint j = 0; j < columns; ++j) {
    for (uint i = g.index; i < columns; i += g.count) {
      CompensatedSum<T> sum = {};
      for (uint l = i; l < j; ++l) sum.add_product(t[i * kTPitch + l], gram[l * kTPitch + j]);
      t[i * kTPitch + j] = i == j ? tau[j] : -product(tau[j], sum.value());  // zero below the diagonal
    }
  }
  tg_barrier();
  for (uint e = g.index; e < columns * columns; e += g.count)
    out[e / columns * kPanel + e % columns] = t[e / columns * kTPitch + e % columns];
}

// Computes tau and beta like LAPACK's larfg: with v = (1, x / (alpha - beta)) and H = I - tau v v^H, H^H (alpha, x) is
// (beta, 0).
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
