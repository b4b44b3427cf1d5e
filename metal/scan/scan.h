// Scans of rows and columns. A scan is a struct with
//   State                                     what is known of the elements so far
//   State identity()                          of none
//   void next(thread State& s, C x, uint i)   takes one element more
//   State join(State a, State b)              of a's elements, then b's
// and an output is one with
//   void write(uint i, thread const State& s) stores the result at element i
//   at(offset)                                the same output further on
#pragma once

#include "lib/collective.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "scan/params.h"

enum : uint { kScanEach = 4 };  // neighbours that a thread takes at a time

// The state of all threads before this one; `all` gets that of the whole group.
template <typename S, typename State>
inline State scan_threads(State mine, thread State& all, threadgroup State* scratch, GroupThread g) {
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

// A row by the threads of a group.
template <typename S, typename T, typename Out>
inline void scan_row(device const T* x, Out out, uint n, threadgroup typename S::State* scratch, GroupThread g) {
  typedef compute_t<T> C;
  typedef typename S::State State;
  State carry = S::identity();
  for (ulong tile = 0; tile < n; tile += ulong(kScanEach) * g.count) {
    const ulong first = tile + ulong(kScanEach) * g.index;
    const uint begin = uint(min(first, ulong(n))), end = uint(min(first + kScanEach, ulong(n)));
    State mine = S::identity(), all;
    for (uint i = begin; i < end; ++i) S::next(mine, C(x[i]), i);
    State s = S::join(carry, scan_threads<S>(mine, all, scratch, g));
    for (uint i = begin; i < end; ++i) {
      S::next(s, C(x[i]), i);
      out.write(i, s);
    }
    carry = S::join(carry, all);
  }
}

// Columns of a block [size, inner]: a threadgroup has kScanColumns neighbours, and each thread columns of its own.
template <typename S, typename T, typename Out>
inline void scan_columns(device const T* x, Out out, constant ScanParams& p, uint columns, GroupThread g) {
  for (uint c = g.index; c < columns; c += g.count) {
    typename S::State s = S::identity();
    for (uint line = 0; line < p.size; ++line) {
      const ulong first = ulong(line) * p.inner;
      S::next(s, compute_t<T>(x[first + c]), line);
      out.at(first).write(c, s);
    }
  }
}

// The first element of a group of columns.
inline ulong scan_column_begin(constant ScanParams& p, uint3 group) {
  return ulong(group.y) * p.size * p.inner + ulong(group.x) * kScanColumns;
}
inline uint scan_column_count(constant ScanParams& p, uint3 group) {
  return min(uint(kScanColumns), p.inner - group.x * kScanColumns);
}
