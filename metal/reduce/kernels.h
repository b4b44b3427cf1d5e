// The kernels every reduction of reduce.def is an instance of. A reduction is a struct with
//   Acc                    the accumulator
//   Combine                CombineSum, CombineProduct or CombineMax
//   static Acc map(C x, float p)            an element's contribution
//   static C finish(Acc v, constant ReduceParams&)
#pragma once

#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

enum : uint { kLineBlock = 32 };

// The result where nothing is reduced.
template <typename Combine, typename A> struct Identity;
template <typename A> struct Identity<CombineSum, A> {
  static A value() { return A(0); }
};
template <typename A> struct Identity<CombineProduct, A> {
  static A value() { return A(1); }
};
template <> struct Identity<CombineMax, int> {
  static int value() { return INT_MIN; }
};
template <> struct Identity<CombineMax, long> {
  static long value() { return LONG_MIN; }
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

// The same for a column, whose running result is kept in two arrays.
template <typename Combine, typename A>
inline void fold_into(threadgroup A* total, threadgroup A* low, uint c, A v) {
  A t = total[c], l = low[c];
  Fold<Combine>::add(t, l, v);
  total[c] = t, low[c] = l;
}

// The inner loop of rows, one for every way to combine, since a loop hint names the operator.
template <typename Combine, typename Op, typename T> struct RowLoop;
#define MPSX_ROW_LOOP(COMBINE, CLAUSE, STEP)                                                             \
  template <typename Op, typename T>                                                                     \
  struct RowLoop<COMBINE, Op, T> {                                                                       \
    typedef typename Op::Acc A;                                                                          \
    static A dense(device const T* x, uint n, uint index, uint count, float p) {                         \
      typedef compute_t<T> C;                                                                            \
      A s = Identity<COMBINE, A>::value();                                                               \
      MPSX_REDUCE(CLAUSE) for (uint i = index; i < n; i += count) {                                      \
        const A v = Op::map(C(x[i]), p);                                                                 \
        STEP;                                                                                            \
      }                                                                                                  \
      return s;                                                                                          \
    }                                                                                                    \
    static A strided(device const T* x, long stride, uint n, uint index, uint count, float p) {          \
      typedef compute_t<T> C;                                                                            \
      A s = Identity<COMBINE, A>::value();                                                               \
      for (uint i = index; i < n; i += count) {                                                          \
        const A v = Op::map(C(x[long(i) * stride]), p);                                                  \
        STEP;                                                                                            \
      }                                                                                                  \
      return s;                                                                                          \
    }                                                                                                    \
  };
MPSX_ROW_LOOP(CombineSum, + : s, s += v)
MPSX_ROW_LOOP(CombineProduct, * : s, s *= v)
MPSX_ROW_LOOP(CombineMax, max : s, s = s < v ? v : s)

// One threadgroup reduces a row (or, of a split one, a part).
template <typename T, typename O, typename Op>
kernel void reduce_rows(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                        device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                        MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  typedef RowLoop<Combine, Op, T> Loop;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A scratch[kScratch];
  if (p.short_rows) {  // what follows would cost more than the sum
    const A v = Loop::dense(x + long(g.group.x) * p.kept_stride[0], uint(p.inner_size), g.index, g.count, p.p);
    const A all = tg_reduce<Combine>(v, scratch, g);
    if (g.index == 0) out[g.group.x] = O(Op::finish(all, p));
    return;
  }
  const ReduceRange r = reduce_row_range(p, g.group);
  A total = Identity<Combine, A>::value(), low = A(0);
  for (ulong line = r.first; line < r.last; ++line) {
    device const T* row = x + (r.input + line_offset(p, line));
    for (ulong b = r.begin; b < r.end; b += kReduceBlock) {
      const uint n = uint(smaller(r.end - b, kReduceBlock));
      const A block =
          p.inner_stride == 1
              ? Loop::dense(row + b, n, g.index, g.count, p.p)
              : Loop::strided(row + long(b) * p.inner_stride, p.inner_stride, n, g.index, g.count, p.p);
      Fold<Combine>::add(total, low, block);
    }
  }
  const A v = tg_reduce<Combine>(Fold<Combine>::settle(total, low), scratch, g);
  if (g.index != 0) return;
  if (p.splits > 1)
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = v;
  else
    out[r.output] = O(Op::finish(v, p));
}

// One threadgroup owns a block of adjacent columns; a thread's columns are its own, so that nothing is exchanged.
template <typename T, typename O, typename Op>
kernel void reduce_columns(device O* out [[buffer(0)]], device typename Op::Acc* parts [[buffer(1)]],
                           device const T* x [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                           MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  typedef compute_t<T> C;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A total[kReduceColumns], low[kReduceColumns], block[kReduceColumns];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  const float exponent = p.p;
  device const T* top = x + (r.input + long(r.begin));
  for (uint c = g.index; c < n; c += g.count) total[c] = Identity<Combine, A>::value(), low[c] = A(0);
  for (ulong first = r.first; first < r.last; first += kLineBlock) {
    const ulong last = smaller(first + kLineBlock, r.last);
    for (uint c = g.index; c < n; c += g.count) block[c] = Identity<Combine, A>::value();
    for (ulong line = first; line < last; line += 4) {  // the last lines are repeated, and not counted
      device const T* r0 = top + line_offset(p, line);
      device const T* r1 = top + line_offset(p, smaller(line + 1, last - 1));
      device const T* r2 = top + line_offset(p, smaller(line + 2, last - 1));
      device const T* r3 = top + line_offset(p, smaller(line + 3, last - 1));
      const uint lines = uint(smaller(last - line, 4));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) {
        const A none = Identity<Combine, A>::value();
        const A v1 = Op::map(C(r1[c]), exponent), v2 = Op::map(C(r2[c]), exponent), v3 = Op::map(C(r3[c]), exponent);
        const A a = Combine::apply(Op::map(C(r0[c]), exponent), lines > 1 ? v1 : none);
        const A b = Combine::apply(lines > 2 ? v2 : none, lines > 3 ? v3 : none);
        block[c] = Combine::apply(block[c], Combine::apply(a, b));
      }
    }
    for (uint c = g.index; c < n; c += g.count) fold_into<Combine>(total, low, c, block[c]);
  }
  // Two loops: with both stores in one, a CPU's compiler would store under masks.
  if (p.splits > 1) {
    for (uint c = g.index; c < n; c += g.count)
      parts[ulong(g.group.y) * p.outputs + ulong(r.output + long(r.begin + c) * p.inner_out)] =
          Fold<Combine>::settle(total[c], low[c]);
  } else {
    for (uint c = g.index; c < n; c += g.count)
      out[r.output + long(r.begin + c) * p.inner_out] = O(Op::finish(Fold<Combine>::settle(total[c], low[c]), p));
  }
}

// The splits of each output become its result, in order.
template <typename T, typename O, typename Op>
kernel void reduce_merge(device O* out [[buffer(0)]], device const typename Op::Acc* parts [[buffer(1)]],
                         constant ReduceParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  typedef typename Op::Acc A;
  typedef typename Op::Combine Combine;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A total[kReduceColumns], low[kReduceColumns];
  const ulong begin = ulong(g.group.x) * kReduceColumns;
  const uint n = uint(smaller(p.outputs - begin, kReduceColumns));
  for (uint c = g.index; c < n; c += g.count) total[c] = Identity<Combine, A>::value(), low[c] = A(0);
  for (uint s = 0; s < p.splits; ++s) {
    device const A* row = parts + (ulong(s) * p.outputs + begin);
    for (uint c = g.index; c < n; c += g.count) fold_into<Combine>(total, low, c, row[c]);
  }
  for (uint c = g.index; c < n; c += g.count)
    out[begin + c] = O(Op::finish(Fold<Combine>::settle(total[c], low[c]), p));
}
