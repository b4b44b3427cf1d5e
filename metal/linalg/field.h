// Arithmetic that works on both float and complex (float2) numbers, and matrix tiles in threadgroup memory.
#pragma once

#include "lib/collective.h"
#include "lib/complex.h"
#include "linalg/params.h"

inline float product(float a, float b) { return a * b; }
inline float2 product(float2 a, float2 b) { return complex_product(a, b); }
// Returns a * b + c.
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
// Returns the magnitude that pivoting compares: |x| if x is real, or |re| + |im| if x is complex (cabs1 in LAPACK).
inline float pivot_size(float a) { return fabs(a); }
inline float pivot_size(float2 a) { return fabs(a.x) + fabs(a.y); }
template <typename T> inline T field_number(float real, float imaginary);
template <> inline float field_number<float>(float real, float) { return real; }
template <> inline float2 field_number<float2>(float real, float imaginary) { return float2(real, imaginary); }

// Divides numbers by a common divisor. Multiplies by the reciprocal unless the reciprocal would overflow.
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

// A thread's (row, column) position when the threadgroup is arranged in rows of at most `width` threads. Leftover
// threads that do not fill a row get an out-of-range row, so that they exit early.
struct Spread {
  uint row, column, rows, columns;
};
inline Spread spread_over(uint width, GroupThread g) {
  const uint columns = min(width, g.count), rows = g.count / columns, row = g.index / columns;
  return {row < rows ? row : 0x40000000u, g.index % columns, rows, columns};
}

// Returns the pair with the largest key in the SIMD group. The result is valid only in lane 0.
inline Pivot sg_argmax(Pivot v, SimdGroup s) {
  for (uint distance = 1; distance < s.lanes; distance *= 2) {
    const Pivot other = shuffle_down(v, ushort(distance));
    if (s.lane + distance < s.lanes) v = CombineArgMax::apply(v, other);
  }
  return v;
}

// Iterates over this thread's elements of a rows x columns tile. Adjacent threads visit elements that are adjacent in
// device memory.
struct TileWalk {
  bool column_major;
  uint minor_size, major_size;
  Spread s;
  uint minor, major;

  METAL_FUNC bool more() const { return major < major_size; }
  METAL_FUNC void next() {
    minor += s.columns;
    if (minor < minor_size) return;
    minor = s.column;
    major += s.rows;
  }
  METAL_FUNC uint row() const { return column_major ? minor : major; }
  METAL_FUNC uint column() const { return column_major ? major : minor; }
};
inline TileWalk tile_walk(uint rows, uint columns, long row_stride, GroupThread g) {
  const bool column_major = row_stride == 1;
  const uint minor_size = column_major ? rows : columns;
  const Spread s = spread_over(max(minor_size, 1u), g);
  return {column_major, minor_size, column_major ? columns : rows, s, s.column, s.row};
}

// A matrix in device or threadgroup memory. Rows `split` and above are shifted by `jump` elements. P is the pointer
// type.
template <typename P>
struct MatrixView {
  P data;
  long row_stride, column_stride;
  uint split;
  long jump;

  METAL_FUNC long offset(uint i, uint j) const {
    return long(i) * row_stride + long(j) * column_stride + (i < split ? 0 : jump);
  }
};
template <typename P>
inline MatrixView<P> matrix_view(P data, long row_stride, long column_stride) {
  return {data, row_stride, column_stride, UINT_MAX, 0};
}

// Copies a rows x columns tile. `column_major` describes the layout in device memory. Adjacent threads copy elements
// that are adjacent in device memory. Each thread issues a batch of loads before its first store to overlap their
// latencies.
template <typename To, typename From>
inline void copy_tile(MatrixView<To> to, MatrixView<From> from, uint rows, uint columns, bool column_major,
                      GroupThread g) {
  enum : uint { kBatch = 8 };
  typedef remove_cv_t<remove_reference_t<decltype(*to.data)>> T;
  const uint minor_size = column_major ? rows : columns, major_size = column_major ? columns : rows;
  const Spread s = spread_over(max(minor_size, 1u), g);
  for (uint minor = s.column; minor < minor_size; minor += s.columns) {
    for (uint first = s.row; first < major_size; first += kBatch * s.rows) {
      T values[kBatch];
      MPSX_UNROLL
      for (uint k = 0; k < kBatch; ++k) {
        const uint major = min(first + k * s.rows, major_size - 1);  // clamp instead of branching at every load
        values[k] = from.data[column_major ? from.offset(minor, major) : from.offset(major, minor)];
      }
      MPSX_UNROLL
      for (uint k = 0; k < kBatch; ++k) {
        const uint major = first + k * s.rows;
        if (major < major_size)
          to.data[column_major ? to.offset(minor, major) : to.offset(major, minor)] = values[k];
      }
    }
  }
}
// Copies between a row-major tile in threadgroup memory and device memory.
template <typename T>
inline void load_tile(threadgroup T* to, uint pitch, device const T* from, long row_stride, long column_stride,
                      uint rows, uint columns, GroupThread g) {
  copy_tile(matrix_view(to, pitch, 1), matrix_view(from, row_stride, column_stride), rows, columns, row_stride == 1, g);
}
template <typename T>
inline void store_tile(device T* to, long row_stride, long column_stride, threadgroup const T* from, uint pitch,
                       uint rows, uint columns, GroupThread g) {
  copy_tile(matrix_view(to, row_stride, column_stride), matrix_view(from, pitch, 1), rows, columns, row_stride == 1, g);
}

// Solves a x = b by substitution for a tile of right-hand sides, with one barrier per row. `x` contains b and is
// overwritten with x. Only the upper or lower triangle of the n x n matrix `a` is read. The dot products of kSums rows
// are accumulated in `sums` (kSums rows of x_pitch elements) before they are subtracted from b. Subtracting one product
// at a time would round at the magnitude of b each time. Every step assigns the same elements to a thread.
template <typename T>
inline void solve_tile(threadgroup const T* a, uint a_pitch, threadgroup T* x, uint x_pitch, threadgroup T* sums,
                       uint n, uint columns, bool upper, bool unit, GroupThread g) {
  const Spread s = spread_over(kSolveColumns, g);
  const uint last = upper ? n - 1 : 0;  // step k solves row k, or row last - k if `upper`
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
