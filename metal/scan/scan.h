// Scans of rows and columns. A scan is a struct with
//   State                                     the state after some elements, which shuffle_up() accepts
//   State identity()                          the state before the first element
//   void next(thread State& s, C x, uint i)   appends element x with index i
//   State join(State a, State b)              the state after the elements of a, then the elements of b
// An output is a struct with
//   void write(uint i, thread const State& s) stores the result at element i
//   Block<N>, store(uint i, Block<N> b)       stores a block of N adjacent results
//   at(offset)                                the output starting at an offset
//
// If there are too few rows or columns to keep a GPU busy, they are split into chunks, with one threadgroup per chunk.
// A first launch computes the state at the end of each chunk. A second launch (p.writes) starts each chunk from the
// combined states of the chunks before it.
#pragma once

#include "lib/collective.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/vec.h"
#include "scan/params.h"

// Computes the exclusive scan of the threads' states. Sets `all` to the state after all threads.
template <typename S, typename State>
inline State scan_threads(State mine, thread State& all, threadgroup State* scratch, GroupThread g) {
  const uint simdgroup = g.index / g.width, simdgroups = (g.count + g.width - 1) / g.width;
  const uint active = min(g.width, g.count - simdgroup * g.width);
  State sum = mine;  // inclusive scan within the SIMD group
  for (uint distance = 1; distance < g.width; distance *= 2) {
    const State below = shuffle_up(sum, ushort(distance));
    if (g.lane >= distance) sum = S::join(below, sum);
  }
  if (g.lane == active - 1) scratch[simdgroup] = sum;
  const State below = shuffle_up(sum, 1);
  tg_barrier();
  if (simdgroup == 0) {
    State ends = g.lane < simdgroups ? scratch[g.lane] : S::identity();
    for (uint distance = 1; distance < simdgroups; distance *= 2) {
      const State lower = shuffle_up(ends, ushort(distance));
      if (g.lane >= distance) ends = S::join(lower, ends);
    }
    if (g.lane < simdgroups) scratch[g.lane] = ends;
  }
  tg_barrier();
  all = scratch[simdgroups - 1];
  const State before = simdgroup == 0 ? S::identity() : scratch[simdgroup - 1];
  tg_barrier();
  return g.lane == 0 ? before : S::join(before, below);
}

// Returns the state at the start of a chunk by joining the end states of the `count` chunks before it.
template <typename S, typename State>
inline State state_before(device const State* states, uint count, threadgroup State* scratch, GroupThread g) {
  State all = S::identity();
  if (count == 0) return all;
  const uint each = (count + g.count - 1) / g.count, begin = min(g.index * each, count);
  State mine = S::identity();
  for (uint i = begin, end = min(begin + each, count); i < end; ++i) mine = S::join(mine, states[i]);
  scan_threads<S>(mine, all, scratch, g);
  return all;
}

// Number of adjacent elements that a thread scans at a time, enough to amortize the cost of the scan over threads.
template <typename T>
constexpr constant uint scan_each = sizeof(T) * kScanEach > kScanBytes ? kScanBytes / sizeof(T) : kScanEach;

// Scans elements [begin, end) of a row with one threadgroup, starting from `carry`. Returns the final state.
template <typename S, typename T, typename Out>
inline typename S::State scan_row(device const T* x, Out out, uint begin, uint end, typename S::State carry,
                                  constant ScanParams& p, threadgroup typename S::State* scratch, GroupThread g) {
  typedef compute_t<T> C;
  typedef typename S::State State;
  enum : uint { kEach = scan_each<T> };
  for (uint tile = begin; tile < end; tile += min(kEach * g.count, end - tile)) {
    const uint first = tile + min(kEach * g.index, end - tile), count = min(uint(kEach), end - first);
    const bool whole = p.aligned && count == kEach;
    Vec<T, kEach> raw;
    if (whole) {
      raw = load_vec<kEach>(x + first);
    } else {
      MPSX_UNROLL for (uint j = 0; j < kEach; ++j)
        if (j < count) raw.v[j] = x[first + j];
    }
    State mine = S::identity(), all;
    MPSX_UNROLL for (uint j = 0; j < kEach; ++j)
      if (j < count) S::next(mine, C(raw.v[j]), first + j);
    State s = S::join(carry, scan_threads<S>(mine, all, scratch, g));
    carry = S::join(carry, all);
    if (!p.writes) continue;
    typename Out::template Block<kEach> block;
    MPSX_UNROLL for (uint j = 0; j < kEach; ++j) {
      if (j >= count) continue;
      S::next(s, C(raw.v[j]), first + j);
      if (whole)
        block.set(j, s);
      else
        out.write(first + j, s);
    }
    if (whole) out.store(first, block);
  }
  return carry;
}

// Scans chunk g.group.y of row g.group.x.
template <typename S, typename T, typename Out>
inline void scan_rows(device const T* in, Out out, constant ScanParams& p, device typename S::State* states,
                      threadgroup typename S::State* scratch, GroupThread g) {
  const ulong row = ulong(g.group.x) * p.size;
  device typename S::State* ends = states + ulong(g.group.x) * p.chunks;
  const uint begin = g.group.y * p.chunk, end = begin + min(p.chunk, p.size - begin);
  typename S::State s = S::identity();
  if (p.writes) s = state_before<S>(ends, g.group.y, scratch, g);
  s = scan_row<S>(in + row, out.at(row), begin, end, s, p, scratch, g);
  if (!p.writes && g.index == 0) ends[g.group.y] = s;
}

// Scans chunk g.group.z of kScanColumns adjacent columns of a [size, inner] block, one thread per column.
template <typename S, typename T, typename Out>
inline void scan_columns(device const T* in, Out out, constant ScanParams& p, device typename S::State* states,
                         GroupThread g) {
  typedef typename S::State State;
  const ulong block = ulong(g.group.y) * p.size * p.inner;
  const uint first = g.group.z * p.chunk, last = first + min(p.chunk, p.size - first);
  const uint left = g.group.x * kScanColumns, right = left + min(uint(kScanColumns), p.inner - left);
  for (uint c = left + g.index; c < right; c += g.count) {
    device State* ends = states + (ulong(g.group.y) * p.chunks * p.inner + c);
    State s = S::identity();
    for (uint j = 0; p.writes && j < g.group.z; ++j) s = S::join(s, ends[ulong(j) * p.inner]);
    for (uint i = first; i < last; i += min(uint(kScanUnroll), last - i)) {
      T raw[kScanUnroll];
      MPSX_UNROLL for (uint k = 0; k < kScanUnroll; ++k)
        raw[k] = in[block + ulong(min(i + k, last - 1)) * p.inner + c];
      MPSX_UNROLL for (uint k = 0; k < kScanUnroll; ++k) {
        if (i + k >= last) continue;
        S::next(s, compute_t<T>(raw[k]), i + k);
        if (p.writes) out.at(block + ulong(i + k) * p.inner).write(c, s);
      }
    }
    if (!p.writes) ends[ulong(g.group.z) * p.inner] = s;
  }
}
