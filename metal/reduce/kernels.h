// Kernel templates for the reductions in reduce.def. A reduction is a struct with
//   Acc                                              the accumulator
//   Combine                                          CombineSum, CombineProduct or CombineMax
//   static Acc map(C x, float p)                     the contribution of an element
//   static C finish(Acc v, constant ReduceParams&)   the result
#pragma once

#include "lib/columns.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

template <typename Op>
struct VectorReduce {
  template <uint N, typename C>
  static typename Op::Acc of(thread const C* v, float p) {
    typename Op::Acc part = Op::map(v[0], p);
#pragma unroll
    for (uint j = 1; j < N; ++j) part = Op::Combine::apply(part, Op::map(v[j], p));
    return part;
  }
};

// Accumulates this thread's share of n contiguous elements.
template <typename Op, typename T>
inline void accumulate_contiguous(device const T* x, uint offset, uint n, float p, RowGroup group,
                                  thread typename Op::Acc& total, thread typename Op::Acc& low) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  typedef compute_t<T> C;
  RowReader<T> reader(x, offset, n, group);
  for (; reader.load_batch(); reader.advance()) {
    A part = Init<Combine, A>::value();
#pragma unroll
    for (uint k = 0; k < kUnroll; ++k) {
      if (!reader.valid(k)) continue;
      C v[RowReader<T>::kVector];
#pragma unroll
      for (uint j = 0; j < RowReader<T>::kVector; ++j) v[j] = C(reader.value(k, j));
      part = Combine::apply(part, VectorReduce<Op>::template of<RowReader<T>::kVector>(v, p));
    }
    Accumulator<Combine>::accumulate(total, low, part);
  }
  for (uint e = reader.index; e < reader.scalars; e += reader.count)
    Accumulator<Combine>::accumulate(total, low, Op::map(C(x[reader.scalar_offset(e)]), p));
}
// Accumulates this thread's share of n strided elements.
template <typename Op, typename T>
inline void accumulate_strided(device const T* x, long stride, ulong n, float p, RowGroup group,
                               thread typename Op::Acc& total, thread typename Op::Acc& low) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  for (ulong first = 0; first < n; first += kReduceBlock) {
    A part = Init<Combine, A>::value();
    for (ulong i = first + group.index, last = min64(first + kReduceBlock, n); i < last; i += group.count)
      part = Combine::apply(part, Op::map(compute_t<T>(x[long(i) * stride]), p));
    Accumulator<Combine>::accumulate(total, low, part);
  }
}

// Each row group reduces one row or, if rows are split, one split of a row.
template <typename T, typename O, typename Op>
kernel void reduce_rows(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                        device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                        MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A scratch[kScratch];
  const RowGroup group = row_group(uint(p.outputs), p.row_threads, g);
  if (group.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, group.row, g.group.y);
  A total = Init<Combine, A>::value(), low = A(0);
  for (ulong line = r.first; line < r.last; ++line) {
    const long start = r.input + line_offset(p, line) + long(r.begin) * p.inner_stride;
    if (p.inner_stride == 1)
      accumulate_contiguous<Op>(x + start, uint(start) + p.offset, uint(r.end - r.begin), p.p, group, total, low);
    else
      accumulate_strided<Op>(x + start, p.inner_stride, r.end - r.begin, p.p, group, total, low);
  }
  const A v = rg_reduce<Combine>(Accumulator<Combine>::finalize(total, low), scratch, group, g);
  if (group.index != 0) return;
  if (p.splits > 1)
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = v;
  else
    out[r.output] = O(Op::finish(v, p));
}

// Provides the input as a matrix that columns.h can reduce.
template <typename T, typename Op>
struct InputRow {
  typedef typename Op::Acc A;
  template <uint N> using Raw = Vec<T, N>;
  device const T* x;
  float p;
  template <uint N> Vec<T, N> load(uint c) const { return load_vec<N>(x + c); }
  template <uint N> A value(Vec<T, N> raw, uint, uint j, uint) const { return Op::map(compute_t<T>(raw.v[j]), p); }
  A scalar(uint c, uint) const { return Op::map(compute_t<T>(x[c]), p); }
};
template <typename T, typename Op>
struct InputMatrix {
  typedef InputRow<T, Op> Row;
  device const T* x;
  constant ReduceParams* p;
  Row row(ulong i) const { return {x + line_offset(*p, i), p->p}; }
};

// Each threadgroup reduces a block of adjacent columns.
template <typename T, typename O, typename Op>
kernel void reduce_columns(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                           device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                           MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A result[kColumnTile], scratch[kColumnThreads * column_vector<T>];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  const InputMatrix<T, Op> matrix = {x + (r.input + long(r.begin)), &p};
  column_reduce<Combine, column_vector<T>, 1>(result, scratch, matrix, r.first, r.last, n, p.aligned, g);
  // Use two loops. If both stores were in the same loop, CPU compilers would emit masked stores.
  if (p.splits > 1) {
    for (uint c = g.index; c < n; c += g.count)
      parts[ulong(g.group.y) * p.outputs + ulong(r.output + long(r.begin + c) * p.inner_out)] = result[c];
  } else {
    for (uint c = g.index; c < n; c += g.count)
      out[r.output + long(r.begin + c) * p.inner_out] = O(Op::finish(result[c], p));
  }
}

// Merges the partial results of all splits of an output.
template <typename T, typename O, typename Op>
kernel void reduce_merge(device O* out [[buffer(0)]], device const typename Op::Acc* parts [[buffer(1)]],
                         constant ReduceParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A result[kColumnTile], scratch[kColumnThreads];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(min64(p.outputs - begin, kMergeColumns));
  column_reduce<typename Op::Combine, 1, 1>(result, scratch, PartialMatrix<A>{parts + begin, p.outputs}, 0, p.splits, n,
                                            false, g);
  for (uint c = g.index; c < n; c += g.count) out[begin + c] = O(Op::finish(result[c], p));
}
