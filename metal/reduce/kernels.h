// The kernels every reduction of reduce.def is an instance of. A reduction is a struct with
//   Acc                    the accumulator
//   Combine                CombineSum, CombineProduct or CombineMax
//   static Acc map(C x, float p)            an element's contribution
//   static C finish(Acc v, constant ReduceParams&)
#pragma once

#include "lib/columns.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

// Reduces the elements of a pack.
template <typename Op>
struct PackFold {
  template <uint N, typename C>
  static typename Op::Acc of(thread const C* v, float p) {
    typename Op::Acc part = Op::map(v[0], p);
#pragma unroll
    for (uint j = 1; j < N; ++j) part = Op::Combine::apply(part, Op::map(v[j], p));
    return part;
  }
};

// Adds this thread's share of n neighbours to its running result.
template <typename Op, typename T>
inline void fold_run(device const T* x, uint past, uint n, float p, Team team, thread typename Op::Acc& total,
                     thread typename Op::Acc& low) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  typedef compute_t<T> C;
  Run<T> run(x, past, n, team);
  for (; run.load(); run.advance()) {
    A part = Identity<Combine, A>::value();
#pragma unroll
    for (uint k = 0; k < kAhead; ++k) {
      if (!run.holds(k)) continue;
      C v[Run<T>::kPack];
#pragma unroll
      for (uint j = 0; j < Run<T>::kPack; ++j) v[j] = C(run.value(k, j));
      part = Combine::apply(part, PackFold<Op>::template of<Run<T>::kPack>(v, p));
    }
    Fold<Combine>::add(total, low, part);
  }
  for (uint e = run.index; e < run.edges; e += run.count)
    Fold<Combine>::add(total, low, Op::map(C(x[run.edge(e)]), p));
}
// The same of elements that are not neighbours.
template <typename Op, typename T>
inline void fold_strided(device const T* x, long stride, ulong n, float p, Team team, thread typename Op::Acc& total,
                         thread typename Op::Acc& low) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  for (ulong first = 0; first < n; first += kReduceBlock) {
    A part = Identity<Combine, A>::value();
    for (ulong i = first + team.index, last = smaller(first + kReduceBlock, n); i < last; i += team.count)
      part = Combine::apply(part, Op::map(compute_t<T>(x[long(i) * stride]), p));
    Fold<Combine>::add(total, low, part);
  }
}

// A team reduces a row (or, of a split one, a part).
template <typename T, typename O, typename Op>
kernel void reduce_rows(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                        device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                        MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A scratch[kScratch];
  const Team team = team_of(uint(p.outputs), p.team, g);
  if (team.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, uint2(team.row, g.group.y));
  A total = Identity<Combine, A>::value(), low = A(0);
  for (ulong line = r.first; line < r.last; ++line) {
    const long start = r.input + line_offset(p, line) + long(r.begin) * p.inner_stride;
    if (p.inner_stride == 1)
      fold_run<Op>(x + start, uint(start) + p.offset, uint(r.end - r.begin), p.p, team, total, low);
    else
      fold_strided<Op>(x + start, p.inner_stride, r.end - r.begin, p.p, team, total, low);
  }
  const A v = team_reduce<Combine>(Fold<Combine>::settle(total, low), scratch, team, g);
  if (team.index != 0) return;
  if (p.splits > 1)
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = v;
  else
    out[r.output] = O(Op::finish(v, p));
}

// Lines of the input.
template <typename T, typename Op>
struct InputLine {
  typedef typename Op::Acc A;
  template <uint N> using Raw = Pack<T, N>;
  device const T* x;
  float p;
  template <uint N> Pack<T, N> fetch(uint c) const { return load_pack<N>(x + c); }
  template <uint N> A value(Pack<T, N> raw, uint j, uint) const { return Op::map(compute_t<T>(raw.v[j]), p); }
  A one(uint c, uint) const { return Op::map(compute_t<T>(x[c]), p); }
};
template <typename T, typename Op>
struct InputLines {
  typedef InputLine<T, Op> Line;
  device const T* x;
  constant ReduceParams* p;
  Line line(ulong i) const { return {x + line_offset(*p, i), p->p}; }
};

// One threadgroup owns a block of adjacent columns.
template <typename T, typename O, typename Op>
kernel void reduce_columns(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                           device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                           MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A result[kFoldColumns], scratch[kFoldThreads * column_pack<T>];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  const InputLines<T, Op> lines = {x + (r.input + long(r.begin)), &p};
  if (p.packed)
    fold_columns<Combine, column_pack<T>, 1>(result, scratch, lines, r.first, r.last, n, g);
  else
    fold_columns<Combine, 1, 1>(result, scratch, lines, r.first, r.last, n, g);
  // Two loops: with both stores in one, a CPU's compiler would store under masks.
  if (p.splits > 1) {
    for (uint c = g.index; c < n; c += g.count)
      parts[ulong(g.group.y) * p.outputs + ulong(r.output + long(r.begin + c) * p.inner_out)] = result[c];
  } else {
    for (uint c = g.index; c < n; c += g.count)
      out[r.output + long(r.begin + c) * p.inner_out] = O(Op::finish(result[c], p));
  }
}

// The splits of each output become its result.
template <typename T, typename O, typename Op>
kernel void reduce_merge(device O* out [[buffer(0)]], device const typename Op::Acc* parts [[buffer(1)]],
                         constant ReduceParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A result[kFoldColumns], scratch[kFoldThreads];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(smaller(p.outputs - begin, kMergeColumns));
  fold_columns<typename Op::Combine, 1, 1>(result, scratch, PartialLines<A>{parts + begin, p.outputs}, 0, p.splits, n,
                                          g);
  for (uint c = g.index; c < n; c += g.count) out[begin + c] = O(Op::finish(result[c], p));
}
