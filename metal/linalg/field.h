// Arithmetic of float and of complex numbers (float2) under one name, and tiles of matrices in threadgroup memory.
#pragma once

#include "lib/collective.h"
#include "lib/complex.h"
#include "linalg/params.h"

inline float product(float a, float b) { return a * b; }
inline float2 product(float2 a, float2 b) { return complex_product(a, b); }
inline float quotient(float a, float b) { return a / b; }
inline float2 quotient(float2 a, float2 b) { return complex_quotient(a, b); }
inline float conjugate(float a) { return a; }
inline float real_part(float a) { return a; }
inline float real_part(float2 a) { return a.x; }
inline float imaginary_part(float) { return 0.0f; }
inline float imaginary_part(float2 a) { return a.y; }
inline float squared_modulus(float a) { return a * a; }
inline float squared_modulus(float2 a) { return a.x * a.x + a.y * a.y; }
// The size by which LAPACK chooses a pivot.
inline float pivot_size(float a) { return fabs(a); }
inline float pivot_size(float2 a) { return fabs(a.x) + fabs(a.y); }
template <typename T> inline T field_number(float real, float imaginary);
template <> inline float field_number<float>(float real, float) { return real; }
template <> inline float2 field_number<float2>(float real, float imaginary) { return float2(real, imaginary); }

// Divides by one number, through its reciprocal unless that overflows.
template <typename T>
struct Divisor {
  T value, reciprocal;
  bool is_normal;
  METAL_FUNC T divide(T a) const { return is_normal ? product(a, reciprocal) : quotient(a, value); }
};
template <typename T>
inline Divisor<T> divisor(T value) {
  const T reciprocal = quotient(field_number<T>(1.0f, 0.0f), value);
  return {value, reciprocal, pivot_size(reciprocal) < 1e37f};
}

template <typename T> struct Block { enum : uint { rows = kFloatBlock }; };
template <> struct Block<float2> { enum : uint { rows = kComplexBlock }; };

// A thread's position in a threadgroup seen as rows of at most `width` threads. Threads beyond the last whole row get a
// row beyond every matrix.
struct Spread {
  uint row, column, rows, columns;
};
inline Spread spread_over(uint width, GroupThread g) {
  const uint columns = min(width, g.count), rows = g.count / columns, row = g.index / columns;
  return {row < rows ? row : 0x40000000u, g.index % columns, rows, columns};
}

// Copies rows x columns elements to a tile in the order in which they are adjacent in memory.
template <typename T>
inline void load_tile(threadgroup T* to, uint pitch, device const T* from, long row_stride, long column_stride,
                      uint rows, uint columns, GroupThread g) {
  const bool down = row_stride == 1;
  const uint inner = down ? rows : columns;
  for (uint e = g.index; e < rows * columns; e += g.count) {
    const uint outer_index = e / inner, inner_index = e % inner;
    const uint i = down ? inner_index : outer_index, j = down ? outer_index : inner_index;
    to[i * pitch + j] = from[long(i) * row_stride + long(j) * column_stride];
  }
}
template <typename T>
inline void store_tile(device T* to, long row_stride, long column_stride, threadgroup const T* from, uint pitch,
                       uint rows, uint columns, GroupThread g) {
  const bool down = row_stride == 1;
  const uint inner = down ? rows : columns;
  for (uint e = g.index; e < rows * columns; e += g.count) {
    const uint outer_index = e / inner, inner_index = e % inner;
    const uint i = down ? inner_index : outer_index, j = down ? outer_index : inner_index;
    to[long(i) * row_stride + long(j) * column_stride] = from[i * pitch + j];
  }
}

// Solves op(a) x = x for a tile of right-hand sides by substitution, one barrier per row. `a` has n x n elements, of
// which the lower or upper triangle is read; other rows of x subtract row k as soon as it is known.
template <typename T>
inline void solve_tile(threadgroup const T* a, uint a_pitch, threadgroup T* x, uint x_pitch, uint n, uint columns,
                       bool upper, bool unit, GroupThread g) {
  const Spread s = spread_over(kSolveColumns, g);
  for (uint step = 0; step < n; ++step) {
    const uint k = upper ? n - 1 - step : step;
    const uint first = upper ? 0 : k + 1, last = upper ? k : n;
    for (uint c = s.column; c < columns; c += s.columns) {
      const T value = x[k * x_pitch + c], solved = unit ? value : quotient(value, a[k * a_pitch + k]);
      for (uint i = first + s.row; i < last; i += s.rows)
        x[i * x_pitch + c] -= product(a[i * a_pitch + k], solved);
    }
    tg_barrier();
  }
  if (unit) return;
  for (uint i = s.row; i < n; i += s.rows)
    for (uint c = s.column; c < columns; c += s.columns)
      x[i * x_pitch + c] = quotient(x[i * x_pitch + c], a[i * a_pitch + i]);
  tg_barrier();
}
