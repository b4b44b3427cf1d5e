// Reduces the columns of a matrix in one threadgroup. Computes Q reductions per column in one pass, such as a sum and a
// sum of squares, numbered q = 0 to Q - 1. A matrix must have a function row(i), and a row must have:
//   Raw<N>, load<N>(c)      N adjacent elements starting at column c, as stored in memory
//   value<N>(raw, c, j, q)  the operand of reduction q at column c + j
//   scalar(c, q)            the operand of reduction q at column c
#pragma once

#include "lib/collective.h"
#include "lib/vec.h"

// Number of rows to load before using the first one, threads per tile, and columns per tile.
enum : uint { kUnroll = 4, kColumnThreads = 256, kColumnTile = 256 };

// Number of adjacent columns that are loaded as one vector.
template <typename T>
constexpr constant uint column_vector = sizeof(T) == 1 ? 8 : 16 / sizeof(T);

// The initial value of a reduction, which is also the result for an empty input.
template <typename Combine, typename A> struct Init;
template <typename A> struct Init<CombineSum, A> {
  static A value() { return A{}; }
};
template <typename A> struct Init<CombineProduct, A> {
  static A value() { return A(1); }
};
template <> struct Init<CombineMax, int> {
  static int value() { return INT_MIN; }
};
template <> struct Init<CombineMax, float> {
  static float value() { return -INFINITY; }
};
template <> struct Init<CombineMax, long> {
  static long value() { return LONG_MIN; }
};
template <> struct Init<CombineMoments, Moments> {
  static Moments value() { return {0.0f, 0.0f, 0.0f}; }
};

// Adds the result of a block to the running total. Float sums are compensated (TwoSum by D. E. Knuth), so that the
// error does not grow with the number of blocks.
template <typename Combine> struct Accumulator {
  template <typename A>
  static void accumulate(thread A& total, thread A&, A block) { total = Combine::apply(total, block); }
  template <typename A>
  static A finalize(A total, A) { return total; }
};
template <> struct Accumulator<CombineSum> {
  static void accumulate(thread float& total, thread float& low, float block) {
    const float sum = total + block, previous = sum - block;
    low += (total - previous) + (block - (sum - previous));
    total = sum;
  }
  static float finalize(float total, float low) {
    return is_infinite(total) || is_nan(total) ? total : total + low;
  }
  template <typename A>
  static void accumulate(thread A& total, thread A&, A block) { total += block; }
  template <typename A>
  static A finalize(A total, A) { return total; }
};

inline ulong min64(ulong a, ulong b) { return a < b ? a : b; }

// Each thread reduces N adjacent columns, and adjacent threads reduce adjacent columns. If there are more threads than
// needed, several threads reduce different rows of the same columns and combine their results at the end.
template <typename Combine, uint N, uint Q, typename A, typename Matrix>
inline void column_reduce_vectors(threadgroup A* result, threadgroup A* scratch, Matrix matrix, ulong first, ulong last,
                                  uint n, GroupThread g) {
  typedef typename Matrix::Row Row;
  const uint threads = min(g.count, uint(kColumnThreads));
  for (uint begin = 0; begin < n; begin += threads * N) {
    const uint columns = min(n - begin, threads * N), threads_x = columns / N, threads_y = threads / threads_x;
    const uint y = g.index / threads_x, x = g.index % threads_x * N;
    A total[Q][N], low[Q][N];
#pragma unroll
    for (uint i = 0; i < Q * N; ++i) total[i / N][i % N] = Init<Combine, A>::value(), low[i / N][i % N] = A{};
    for (ulong i = y < threads_y ? first + y : last; i < last; i += kUnroll * threads_y) {
      Row rows[kUnroll];
      typename Row::template Raw<N> raw[kUnroll];
      A part[Q][N];
#pragma unroll
      for (uint e = 0; e < Q * N; ++e) part[e / N][e % N] = Init<Combine, A>::value();
#pragma unroll
      for (uint k = 0; k < kUnroll; ++k) {
        if (i + k * threads_y >= last) continue;
        rows[k] = matrix.row(i + k * threads_y);
        raw[k] = rows[k].template load<N>(begin + x);
      }
#pragma unroll
      for (uint k = 0; k < kUnroll; ++k) {
        if (i + k * threads_y >= last) continue;
#pragma unroll
        for (uint e = 0; e < Q * N; ++e)
          part[e / N][e % N] =
              Combine::apply(part[e / N][e % N], rows[k].template value<N>(raw[k], begin + x, e % N, e / N));
      }
#pragma unroll
      for (uint e = 0; e < Q * N; ++e)
        Accumulator<Combine>::accumulate(total[e / N][e % N], low[e / N][e % N], part[e / N][e % N]);
    }
#pragma unroll
    for (uint q = 0; q < Q; ++q) {
#pragma unroll
      for (uint j = 0; j < N; ++j)
        if (y < threads_y) scratch[y * columns + x + j] = Accumulator<Combine>::finalize(total[q][j], low[q][j]);
      tg_barrier();
      for (uint rows = threads_y, half = 0; rows > 1; rows = half) {
        half = (rows + 1) / 2;
        for (uint i = g.index; i < (rows - half) * columns; i += g.count)
          scratch[i] = Combine::apply(scratch[i], scratch[half * columns + i]);
        tg_barrier();
      }
      for (uint c = g.index; c < columns; c += g.count) result[q * kColumnTile + begin + c] = scratch[c];
      tg_barrier();
    }
  }
}

// Reduces rows [first, last) of n columns and stores reduction q of each column in result[q * kColumnTile + column].
// `aligned` means that rows can be loaded in vectors of N elements. `scratch` has kColumnThreads * N elements.
template <typename Combine, uint N, uint Q, typename A, typename Matrix>
inline void column_reduce(threadgroup A* result, threadgroup A* scratch, Matrix matrix, ulong first, ulong last, uint n,
                          bool aligned, GroupThread g) {
  if (N > 1 && aligned)
    column_reduce_vectors<Combine, N, Q>(result, scratch, matrix, first, last, n, g);
  else
    column_reduce_vectors<Combine, 1, Q>(result, scratch, matrix, first, last, n, g);
}

template <uint N, typename O, typename Matrix>
inline void column_store_vectors(device O* out, ulong pitch, Matrix matrix, ulong first, ulong last, uint n,
                                 GroupThread g) {
  typedef typename Matrix::Row Row;
  for (uint begin = 0; begin < n; begin += g.count * N) {
    const uint threads_x = min(n - begin, g.count * N) / N, threads_y = g.count / threads_x;
    const uint y = g.index / threads_x, column = begin + g.index % threads_x * N;
    for (ulong i = y < threads_y ? first + y : last; i < last; i += threads_y) {
      const Row row = matrix.row(i);
      const typename Row::template Raw<N> raw = row.template load<N>(column);
      Vec<O, N> values;
#pragma unroll
      for (uint j = 0; j < N; ++j) values.v[j] = O(row.template value<N>(raw, column, j, 0));
      store_vec(out + i * pitch + column, values);
    }
  }
}
// Stores value(raw, c, j, 0) for each element in rows [first, last) in out[row * pitch + column].
template <uint N, typename O, typename Matrix>
inline void column_store(device O* out, ulong pitch, Matrix matrix, ulong first, ulong last, uint n, bool aligned,
                         GroupThread g) {
  if (N > 1 && aligned)
    column_store_vectors<N>(out, pitch, matrix, first, last, n, g);
  else
    column_store_vectors<1>(out, pitch, matrix, first, last, n, g);
}

// Two matrices of the same shape, which may be identical. f.at(values, column, q) computes the operand of reduction q
// from two corresponding elements.
template <typename T, typename F>
struct PairRow {
  template <uint N>
  struct Raw {
    Vec<T, N> a, b;
  };
  device const T* a;
  device const T* b;
  F f;
  template <uint N> Raw<N> load(uint c) const { return {load_vec<N>(a + c), load_vec<N>(b + c)}; }
  template <uint N>
  float value(Raw<N> raw, uint c, uint j, uint q) const {
    return f.at(Pair{float(raw.a.v[j]), float(raw.b.v[j])}, c + j, q);
  }
  float scalar(uint c, uint q) const { return f.at(Pair{float(a[c]), float(b[c])}, c, q); }
};
template <typename T, typename F>
struct PairMatrix {
  typedef PairRow<T, F> Row;
  device const T* a;
  device const T* b;
  ulong pitch;
  F f;
  Row row(ulong i) const { return {a + i * pitch, b + i * pitch, f}; }
};

// Rows of partial results, which are read one column at a time. Rows are `pitch` accumulators apart.
template <typename A>
struct PartialRow {
  template <uint> using Raw = A;
  device const A* x;
  template <uint> A load(uint c) const { return x[c]; }
  template <uint> A value(A raw, uint, uint, uint) const { return raw; }
  A scalar(uint c, uint) const { return x[c]; }
};
template <typename A>
struct PartialMatrix {
  typedef PartialRow<A> Row;
  device const A* x;
  ulong pitch;
  Row row(ulong i) const { return {x + i * pitch}; }
};
