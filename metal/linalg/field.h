// Arithmetic of float and of complex numbers (float2) under one name, and tiles of matrices in threadgroup memory.
#pragma once

#include "lib/collective.h"
#include "lib/complex.h"
#include "linalg/params.h"

inline float product(float a, float b) { return a * b; }
inline float2 product(float2 a, float2 b) { return complex_product(a, b); }
// a b + c.
inline float product_sum(float a, float b, float c) { return fma(a, b, c); }
inline float2 product_sum(float2 a, float2 b, float2 c) {
  return float2(fma(a.x, b.x, fma(-a.y, b.y, c.x)), fma(a.x, b.y, fma(a.y, b.x, c.y)));
}
inline float quotient(float a, float b) { return a / b; }
inline float2 quotient(float2 a, float2 b) { return complex_quotient(a, b); }
inline float conjugate(float a) { return a; }
inline float real_part(float a) { return a; }
inline float real_part(float2 a) { return a.x; }
inline float imaginary_part(float) { return 0.0f; }
inline float imaginary_part(float2 a) { return a.y; }
inline float squared_modulus(float a) { return a * a; }
inline float squared_modulus(float2 a) { return a.x * a.x + a.y * a.y; }
typedef Indexed<float, uint> Pivot;
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

// The largest key of the SIMD group, in lane 0.
inline Pivot sg_argmax(Pivot v, SimdGroup s) {
  for (uint distance = 1; distance < s.lanes; distance *= 2) {
    const Pivot other = lane_above(v, ushort(distance));
    if (s.lane + distance < s.lanes) v = CombineArgMax::apply(v, other);
  }
  return v;
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

// Solves a x = b over b for a tile of right-hand sides by substitution, one barrier per row. `a` has n x n elements, of
// which the lower or upper triangle is read. Products are summed before they are subtracted from b, kSums rows at a
// time: subtracting one product after the other would round each time at the size of b.
// sums: kSums rows of x_pitch elements. A thread has the same elements of them from beginning to end.
template <typename T>
inline void solve_tile(threadgroup const T* a, uint a_pitch, threadgroup T* x, uint x_pitch, threadgroup T* sums,
                       uint n, uint columns, bool upper, bool unit, GroupThread g) {
  const Spread s = spread_over(kSolveColumns, g);
  const uint last = upper ? n - 1 : 0;  // row of step k: k, or last - k
  for (uint first = 0; first < n; first += kSums) {
    const uint end = min(first + kSums, n);
    for (uint step = first + s.row; step < end; step += s.rows) {
      const uint i = upper ? last - step : step;
      for (uint c = s.column; c < columns; c += s.columns) {
        T sum = field_number<T>(0.0f, 0.0f);
        for (uint l = 0; l < first; ++l) {
          const uint k = upper ? last - l : l;
          sum = product_sum(a[i * a_pitch + k], x[k * x_pitch + c], sum);
        }
        sums[(step - first) * x_pitch + c] = sum;
      }
    }
    for (uint l = first; l < end; ++l) {
      const uint k = upper ? last - l : l;
      if ((l - first) % s.rows == s.row) {
        for (uint c = s.column; c < columns; c += s.columns) {
          const T value = x[k * x_pitch + c] - sums[(l - first) * x_pitch + c];
          x[k * x_pitch + c] = unit ? value : quotient(value, a[k * a_pitch + k]);
        }
      }
      tg_barrier();
      for (uint step = first + s.row; step < end; step += s.rows) {
        if (step <= l) continue;
        const uint i = upper ? last - step : step;
        for (uint c = s.column; c < columns; c += s.columns) {
          threadgroup T* sum = sums + (step - first) * x_pitch + c;
          *sum = product_sum(a[i * a_pitch + k], x[k * x_pitch + c], *sum);
        }
      }
    }
  }
}
