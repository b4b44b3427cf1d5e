// The walk of every scan. A scan is a struct with
//   State                          what is known of the elements before
//   State identity()               of none
//   void next(thread State& s, C x, uint i)   with one element more
//   State join(State a, State b)   of a's elements, then b's
//   kSlow                          whether an element waits long for the one before it, so that rows are better scanned
//                                  side by side:
//   Lanes                          the states of kScanRows rows, for instance SideBySide<S>
// and where results go, with
//   Value value(State s)           what is written of a state
//   void write(uint i, Value v)    to element i of a row
//   at(offset)                     the same further on
#pragma once

#include "lib/collective.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "scan/params.h"

enum : uint { kScanEach = 4 };  // neighbours that a thread takes at a time, where there are several threads

// The state of all threads before this one; `all` gets that of the whole group.
template <typename S, typename State>
inline State scan_threads(State mine, thread State& all, threadgroup State* scratch, GroupThread g) {
  if (g.count == 1) {
    all = mine;
    return S::identity();
  }
  State sum = mine;
  scratch[g.index] = sum;
  tg_barrier();
  for (uint distance = 1; distance < g.count; distance *= 2) {
    if (g.index >= distance) sum = S::join(scratch[g.index - distance], sum);
    tg_barrier();
    scratch[g.index] = sum;
    tg_barrier();
  }
  all = scratch[g.count - 1];
  State before = S::identity();
  if (g.index > 0) before = scratch[g.index - 1];
  tg_barrier();
  return before;
}

// The states of rows, each for itself.
template <typename S, typename C>
struct SideBySide {
  typename S::State state[kScanRows];
  static void start(threadgroup SideBySide& s) {
    for (uint r = 0; r < kScanRows; ++r) s.state[r] = S::identity();
  }
  // The next element of every row. The loop is vectorised where the compiler sees no more than this.
  static void next(threadgroup SideBySide& s, threadgroup const C* x, threadgroup C* values, uint i) {
    MPSX_VECTORIZE
    for (uint r = 0; r < kScanRows; ++r) {
      typename S::State one = s.state[r];
      S::next(one, x[r], i);
      s.state[r] = one;
      values[r] = S::value(one);
    }
  }
};

enum : uint { kSquare = 4 };  // of a tile that registers hold

// Up to kScanRows rows by one thread: an element waits for the one before it, but not for those of other rows. A tile of
// kScanTile elements a row is turned for that, and turned back. Where rows are fewer, the others are zeros.
template <typename Lanes, typename T, typename Out>
inline void scan_rows_together(device const T* in, Out out, uint n, uint rows, threadgroup Lanes& lanes,
                               threadgroup compute_t<T>* x, threadgroup typename Out::Value* values) {
  typedef compute_t<T> C;
  Lanes::start(lanes);
  for (uint i = 0; i < kScanTile * kScanRows; ++i) x[i] = C(0);
  for (uint first = 0; first < n; first += kScanTile) {
    const uint count = min(n - first, uint(kScanTile));
    const uint high = rows / kSquare * kSquare, wide = count / kSquare * kSquare;
    device const T* from = in + first;
    for (uint r = 0; r < high; r += kSquare)
      for (uint i = 0; i < wide; i += kSquare) {
        C square[kSquare][kSquare];
        for (uint a = 0; a < kSquare; ++a)
          for (uint b = 0; b < kSquare; ++b) square[a][b] = C(from[ulong(r + a) * n + i + b]);
        for (uint b = 0; b < kSquare; ++b)
          for (uint a = 0; a < kSquare; ++a) x[(i + b) * kScanRows + r + a] = square[a][b];
      }
    for (uint r = 0; r < rows; ++r)
      for (uint i = r < high ? wide : 0; i < count; ++i) x[i * kScanRows + r] = C(from[ulong(r) * n + i]);
    for (uint i = 0; i < count; ++i) Lanes::next(lanes, x + i * kScanRows, values + i * kScanRows, first + i);
    const Out to = out.at(first);
    for (uint r = 0; r < high; r += kSquare)
      for (uint i = 0; i < wide; i += kSquare) {
        typename Out::Value square[kSquare][kSquare];
        for (uint b = 0; b < kSquare; ++b)
          for (uint a = 0; a < kSquare; ++a) square[a][b] = values[(i + b) * kScanRows + r + a];
        for (uint a = 0; a < kSquare; ++a)
          for (uint b = 0; b < kSquare; ++b) to.at(ulong(r + a) * n).write(i + b, square[a][b]);
      }
    for (uint r = 0; r < rows; ++r)
      for (uint i = r < high ? wide : 0; i < count; ++i) to.at(ulong(r) * n).write(i, values[i * kScanRows + r]);
  }
}

// A row by the threads of a group.
template <typename S, typename T, typename Out>
inline void scan_row(device const T* x, Out out, uint n, threadgroup typename S::State* scratch, GroupThread g) {
  typedef compute_t<T> C;
  typedef typename S::State State;
  State carry = S::identity();
  const ulong each = g.count == 1 ? ulong(n) : ulong(kScanEach);
  for (ulong tile = 0; tile < n; tile += each * g.count) {
    const uint begin = uint(min(tile + each * g.index, ulong(n))), end = uint(min(begin + each, ulong(n)));
    State mine = S::identity(), all;
    if (g.count > 1)
      for (uint i = begin; i < end; ++i) S::next(mine, C(x[i]), i);
    State s = S::join(carry, scan_threads<S>(mine, all, scratch, g));
    for (uint i = begin; i < end; ++i) {
      S::next(s, C(x[i]), i);
      out.write(i, Out::value(s));
    }
    carry = S::join(carry, all);
  }
}

// The rows of a threadgroup.
template <typename S, typename T, typename Out>
inline void scan_rows(device const T* x, Out out, constant ScanParams& p, threadgroup typename S::State* scratch,
                      threadgroup typename S::Lanes& lanes, threadgroup compute_t<T>* tile,
                      threadgroup typename Out::Value* values, GroupThread g) {
  const uint first = g.group.x * p.rows_per_group, count = min(p.rows_per_group, p.rows - first);
  if (S::kSlow && g.count == 1 && count > 1) {
    const ulong begin = ulong(first) * p.size;
    scan_rows_together(x + begin, out.at(begin), p.size, count, lanes, tile, values);
    return;
  }
  for (uint r = 0; r < count; ++r) {
    const ulong begin = ulong(first + r) * p.size;
    scan_row<S>(x + begin, out.at(begin), p.size, scratch, g);
  }
}

// N columns by one thread, which keeps their states in registers.
template <typename S, uint N, typename T, typename Out>
inline void scan_few_columns(device const T* x, Out out, constant ScanParams& p) {
  typename S::State state[N];
  for (uint c = 0; c < N; ++c) state[c] = S::identity();
  for (uint line = 0; line < p.size; ++line) {
    const ulong first = ulong(line) * p.inner;
    for (uint c = 0; c < N; ++c) {
      S::next(state[c], compute_t<T>(x[first + c]), line);
      out.at(first).write(c, Out::value(state[c]));
    }
  }
}

// Columns of a block [size, inner]: a threadgroup has kScanColumns neighbours, each thread columns of its own.
template <typename S, typename T, typename Out>
inline void scan_columns(device const T* x, Out out, constant ScanParams& p, uint columns,
                         threadgroup typename S::State* state, GroupThread g) {
  typedef compute_t<T> C;
  if (g.count == 1 && columns == 2) return scan_few_columns<S, 2>(x, out, p);
  if (g.count == 1 && columns == 3) return scan_few_columns<S, 3>(x, out, p);
  if (g.count == 1 && columns == 4) return scan_few_columns<S, 4>(x, out, p);
  for (uint c = g.index; c < columns; c += g.count) state[c] = S::identity();
  for (uint line = 0; line < p.size; ++line) {
    const ulong first = ulong(line) * p.inner;
    device const T* row = x + first;
    const Out to = out.at(first);
    MPSX_VECTORIZE
    for (uint c = g.index; c < columns; c += g.count) {
      typename S::State s = state[c];
      S::next(s, C(row[c]), line);
      state[c] = s;
      to.write(c, Out::value(s));
    }
  }
}

// Where a group of columns begins.
inline ulong scan_column_begin(constant ScanParams& p, uint3 group) {
  return ulong(group.y) * p.size * p.inner + ulong(group.x) * kScanColumns;
}
inline uint scan_column_count(constant ScanParams& p, uint3 group) {
  return min(uint(kScanColumns), p.inner - group.x * kScanColumns);
}
