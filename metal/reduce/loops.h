// Which output a threadgroup of a reduction computes, and which lines it reads for it.
#pragma once

#include "lib/columns.h"
#include "lib/team.h"
#include "reduce/params.h"

// One threadgroup reduces the elements [begin, end) of the lines [first, last).
struct ReduceRange {
  long input, output;  // offsets of the first element and of the output
  ulong first, last, begin, end;
};

inline ReduceRange reduce_kept(constant ReduceParams& p, uint kept) {
  ReduceRange r = {0, 0, 0, p.lines, 0, p.inner_size};
  if (p.kept_size[1] == 1 && p.kept_size[2] == 1 && p.kept_size[3] == 1) {  // divisions cost more than a short row
    r.input = long(kept) * p.kept_stride[0];
    r.output = long(kept) * p.kept_out[0];
    return r;
  }
  for (uint d = 0; d < 4; ++d) {
    const uint rest = kept / p.kept_size[d], i = kept - rest * p.kept_size[d];
    r.input += long(i) * p.kept_stride[d];
    r.output += long(i) * p.kept_out[d];
    kept = rest;
  }
  return r;
}

// A thread's share of n neighbours, kAhead packs of 16 bytes at a time, all on their way before the first is used. They
// begin `past` elements after a multiple of 16 bytes; those before the next one and after the last, the edges, are
// taken one by one. There are fewer than 2^32 of them: longer rows do not fit into memory, since they are split where
// they are few.
//
//   Run<T> run(x, past, n, team);
//   for (; run.load(); run.advance())
//     for (uint k = 0; k < kAhead && run.holds(k); ++k) … run.value(k, j) …
//   for (uint e = run.index; e < run.edges; e += run.count) … x[run.edge(e)] …
template <typename T>
struct Run {
  enum : uint { kPack = 16 / sizeof(T) };
  device const T* x;
  uint head, packs, edges, index, count, first;
  uint4 raw[kAhead];
  Run(device const T* from, uint past, uint n, Team team)
      : x(from), head(min((kPack - past % kPack) % kPack, n)), packs((n - head) / kPack), edges(n - packs * kPack),
        index(team.index), count(team.count), first(team.index) {}
  uint number(uint k) const { return first + k * count; }
  uint place(uint k) const { return head + number(k) * kPack; }
  bool holds(uint k) const { return number(k) < packs; }
  uint edge(uint e) const { return e < head ? e : e + packs * kPack; }
  T value(uint k, uint j) const { return PackWords<T, sizeof(T)>::get(raw[k], j); }
  uint4 fetch(uint i) const { return PackAccess<16>::load((device const uchar*)(x + i)); }
  // Whether there is anything left of the packs.
  bool load() {
    if (first >= packs) return false;
#pragma unroll
    for (uint k = 0; k < kAhead; ++k) {
      raw[k] = uint4(packs);
      if (holds(k)) raw[k] = fetch(place(k));
    }
    return true;
  }
  void advance() { first += kAhead * count; }
};

// Output at.x, of which split at.y.
inline ReduceRange reduce_row_range(constant ReduceParams& p, uint2 at) {
  ReduceRange r = reduce_kept(p, at.x);
  if (p.splits == 1) return r;
  const ulong inner_splits = (p.inner_size + p.split_inner - 1) / p.split_inner;
  const ulong line = at.y / inner_splits, part = at.y - line * inner_splits;
  r.first = smaller(line * p.split_lines, p.lines);
  r.last = smaller(r.first + p.split_lines, p.lines);
  r.begin = part * p.split_inner;
  r.end = smaller(r.begin + p.split_inner, p.inner_size);
  return r;
}

// Group x owns a block of columns, group y takes split y, group z is the kept index. `begin` and `end` are columns.
inline ReduceRange reduce_column_range(constant ReduceParams& p, uint3 group) {
  ReduceRange r = reduce_kept(p, group.z);
  r.first = smaller(ulong(group.y) * p.split_lines, p.lines);
  r.last = smaller(r.first + p.split_lines, p.lines);
  r.begin = ulong(group.x) * kReduceColumns;
  r.end = smaller(r.begin + kReduceColumns, p.inner_size);
  return r;
}

inline long line_offset(constant ReduceParams& p, ulong line) {
  if (p.line_size[1] == 1 && p.line_size[2] == 1) return long(line) * p.line_stride[0];
  const ulong rest = line / p.line_size[0], i = line - rest * p.line_size[0];
  const ulong k = rest / p.line_size[1], j = rest - k * p.line_size[1];
  return long(i) * p.line_stride[0] + long(j) * p.line_stride[1] + long(k) * p.line_stride[2];
}
