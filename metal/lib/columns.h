// Reductions of lines, column by column. Lines have line(i), and a line has
//   Raw<N>, fetch<N>(column)  N neighbouring columns as they are read
//   value<N>(raw, j, q)       the contribution of column j of them to quantity q
//   one(column, q)            the same of a single column
#pragma once

#include "lib/pack.h"
#include "lib/collective.h"

// Packs that a thread has on their way before it uses the first, and threads that share a tile of columns.
// The columns of such a tile.
enum : uint { kAhead = 4, kFoldThreads = 256, kFoldColumns = 256 };

// Columns that a thread takes at once.
template <typename T>
constexpr constant uint column_pack = sizeof(T) == 1 ? 8 : 16 / sizeof(T);

// The result where nothing is reduced.
template <typename Combine, typename A> struct Identity;
template <typename A> struct Identity<CombineSum, A> {
  static A value() { return A{}; }
};
template <typename A> struct Identity<CombineProduct, A> {
  static A value() { return A(1); }
};
template <> struct Identity<CombineMax, int> {
  static int value() { return INT_MIN; }
};
template <> struct Identity<CombineMax, float> {
  static float value() { return -INFINITY; }
};
template <> struct Identity<CombineMax, long> {
  static long value() { return LONG_MIN; }
};
template <> struct Identity<CombineMoments, Moments> {
  static Moments value() { return {0.0f, 0.0f, 0.0f}; }
};

// Adds the result of a block to the running one. Sums of float keep their rounding errors (D. E. Knuth, TwoSum), so
// that the error does not grow with the number of blocks.
template <typename Combine> struct Fold {
  template <typename A>
  static void add(thread A& total, thread A&, A block) { total = Combine::apply(total, block); }
  template <typename A>
  static A settle(A total, A) { return total; }
};
template <> struct Fold<CombineSum> {
  static void add(thread float& total, thread float& low, float block) {
    const float sum = total + block, was = sum - block;
    low += (total - was) + (block - (sum - was));
    total = sum;
  }
  static float settle(float total, float low) {
    return is_infinite(total) || is_nan(total) ? total : total + low;
  }
  template <typename A>
  static void add(thread A& total, thread A&, A block) { total += block; }
  template <typename A>
  static A settle(A total, A) { return total; }
};

inline ulong smaller(ulong a, ulong b) { return a < b ? a : b; }

// Reduces the lines [first, last) of n columns into result[q * kFoldColumns + column], for each of Q quantities. A
// thread takes N neighbouring columns; threads side by side cover the columns, and what is left of the threadgroup
// takes other lines, whose results are then combined. `scratch` has kFoldThreads * N elements.
template <typename Combine, uint N, uint Q, typename A, typename Lines>
inline void fold_columns(threadgroup A* result, threadgroup A* scratch, Lines lines, ulong first, ulong last, uint n,
                         GroupThread g) {
  typedef typename Lines::Line Line;
  const uint threads = min(g.count, uint(kFoldThreads));
  for (uint begin = 0; begin < n; begin += threads * N) {
    const uint columns = min(n - begin, threads * N), across = columns / N, down = threads / across;
    const uint row = g.index / across, column = g.index % across * N;
    A total[Q][N], low[Q][N];
#pragma unroll
    for (uint i = 0; i < Q * N; ++i) total[i / N][i % N] = Identity<Combine, A>::value(), low[i / N][i % N] = A{};
    for (ulong line = row < down ? first + row : last; line < last; line += kAhead * down) {
      Line at[kAhead];
      typename Line::template Raw<N> raw[kAhead];
      A part[Q][N];
#pragma unroll
      for (uint i = 0; i < Q * N; ++i) part[i / N][i % N] = Identity<Combine, A>::value();
#pragma unroll
      for (uint k = 0; k < kAhead; ++k) {
        if (line + k * down >= last) continue;
        at[k] = lines.line(line + k * down);
        raw[k] = at[k].template fetch<N>(begin + column);
      }
#pragma unroll
      for (uint k = 0; k < kAhead; ++k) {
        if (line + k * down >= last) continue;
#pragma unroll
        for (uint i = 0; i < Q * N; ++i)
          part[i / N][i % N] = Combine::apply(part[i / N][i % N], at[k].template value<N>(raw[k], i % N, i / N));
      }
#pragma unroll
      for (uint i = 0; i < Q * N; ++i) Fold<Combine>::add(total[i / N][i % N], low[i / N][i % N], part[i / N][i % N]);
    }
#pragma unroll
    for (uint q = 0; q < Q; ++q) {
#pragma unroll
      for (uint j = 0; j < N; ++j)
        if (row < down) scratch[row * columns + column + j] = Fold<Combine>::settle(total[q][j], low[q][j]);
      tg_barrier();
      for (uint rows = down, half = 0; rows > 1; rows = half) {
        half = (rows + 1) / 2;
        for (uint i = g.index; i < (rows - half) * columns; i += g.count)
          scratch[i] = Combine::apply(scratch[i], scratch[half * columns + i]);
        tg_barrier();
      }
      for (uint c = g.index; c < columns; c += g.count) result[q * kFoldColumns + begin + c] = scratch[c];
      tg_barrier();
    }
  }
}

// Stores the value of every column of the lines [first, last): out[line * pitch + column].
template <uint N, typename O, typename Lines>
inline void store_columns(device O* out, ulong pitch, Lines lines, ulong first, ulong last, uint n, GroupThread g) {
  typedef typename Lines::Line Line;
  for (uint begin = 0; begin < n; begin += g.count * N) {
    const uint across = min(n - begin, g.count * N) / N, down = g.count / across;
    const uint row = g.index / across, column = begin + g.index % across * N;
    for (ulong line = row < down ? first + row : last; line < last; line += down) {
      const Line from = lines.line(line);
      const typename Line::template Raw<N> raw = from.template fetch<N>(column);
      Pack<O, N> pack;
#pragma unroll
      for (uint j = 0; j < N; ++j) pack.v[j] = O(from.template value<N>(raw, j, 0));
      store_pack(out + line * pitch + column, pack);
    }
  }
}

// Lines of partial results, `pitch` apart, which are read one column at a time.
template <typename A>
struct PartialLine {
  template <uint> using Raw = A;
  device const A* x;
  template <uint> A fetch(uint c) const { return x[c]; }
  template <uint> A value(A raw, uint, uint) const { return raw; }
  A one(uint c, uint) const { return x[c]; }
};
template <typename A>
struct PartialLines {
  typedef PartialLine<A> Line;
  device const A* x;
  ulong pitch;
  Line line(ulong i) const { return {x + i * pitch}; }
};
