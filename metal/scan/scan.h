// The walk of every scan. A scan is a struct with
//   State                          what is known of the elements before
//   State identity()               of none
//   void next(thread State& s, C x, uint i)   with one element more
//   State join(State a, State b)   of a's elements, then b's
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

// A row a threadgroup. `Out` writes a state's result to element i of a row.
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
      out.write(i, s);
    }
    carry = S::join(carry, all);
  }
}

// Columns of a block [size, inner]: a threadgroup has kScanColumns neighbours, each thread columns of its own.
template <typename S, typename T, typename Out>
inline void scan_columns(device const T* x, Out out, constant ScanParams& p, uint columns,
                         threadgroup typename S::State* state, GroupThread g) {
  typedef compute_t<T> C;
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
      to.write(c, s);
    }
  }
}

// Where a group begins: of rows the element, of columns the first one.
inline ulong scan_row_begin(constant ScanParams& p, uint3 group) { return ulong(group.x) * p.size; }
inline ulong scan_column_begin(constant ScanParams& p, uint3 group) {
  return ulong(group.y) * p.size * p.inner + ulong(group.x) * kScanColumns;
}
inline uint scan_column_count(constant ScanParams& p, uint3 group) {
  return min(uint(kScanColumns), p.inner - group.x * kScanColumns);
}
