// The kernels every reduction of reduce.def is an instance of. A reduction is a struct with
//   Acc                    what is accumulated
//   Combine                CombineSum, CombineProduct or CombineMax
//   static Acc map(C x, float p)            an element's contribution
//   static C finish(Acc v, constant ReduceParams&)
#pragma once

#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

enum : uint { kLineBlock = 32 };

// What nothing reduces to.
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

// The same of a column, whose running result is kept in two arrays.
template <typename Combine, typename A>
inline void fold_into(threadgroup A* total, threadgroup A* low, uint c, A v) {
  A t = total[c], l = low[c];
  Fold<Combine>::add(t, l, v);
  total[c] = t, low[c] = l;
}

// The inner loops of rows, one for every way to combine, since a loop hint names the operator.
template <typename Combine, typename Op, typename T> struct RowLoop;
#define MPSX_ROW_LOOP(COMBINE, CLAUSE, STEP, REPEATED)                                                           \
  template <typename Op, typename T>                                                                             \
  struct RowLoop<COMBINE, Op, T> {                                                                               \
    typedef typename Op::Acc A;                                                                                  \
    static A dense(device const T* x, uint n, uint index, uint count, float p) {                                 \
      typedef compute_t<T> C;                                                                                    \
      A s = Identity<COMBINE, A>::value();                                                                       \
      MPSX_REDUCE(CLAUSE) for (uint i = index; i < n; i += count) {                                              \
        const A v = Op::map(C(x[i]), p);                                                                         \
        STEP;                                                                                                    \
      }                                                                                                          \
      return s;                                                                                                  \
    }                                                                                                            \
    /* As dense, by one thread: of so few that vectors as wide as may be would leave most to single steps. */    \
    static A few(device const T* x, uint n, float p) {                                                           \
      typedef compute_t<T> C;                                                                                    \
      const uint whole = n & ~15u;                                                                               \
      A s = Identity<COMBINE, A>::value();                                                                       \
      MPSX_REDUCE_BY(8, 2, CLAUSE) for (uint i = 0; i < whole; ++i) {                                            \
        const A v = Op::map(C(x[i]), p);                                                                         \
        STEP;                                                                                                    \
      }                                                                                                          \
      MPSX_REDUCE_BY(4, 1, CLAUSE) for (uint i = whole; i < n; ++i) {                                            \
        const A v = Op::map(C(x[i]), p);                                                                         \
        STEP;                                                                                                    \
      }                                                                                                          \
      return s;                                                                                                  \
    }                                                                                                            \
    static A strided(device const T* x, long stride, uint n, uint index, uint count, float p) {                  \
      typedef compute_t<T> C;                                                                                    \
      A s = Identity<COMBINE, A>::value();                                                                       \
      MPSX_REDUCE(CLAUSE) for (uint i = index; i < n; i += count) {                                              \
        const A v = Op::map(C(x[long(i) * stride]), p);                                                          \
        STEP;                                                                                                    \
      }                                                                                                          \
      return s;                                                                                                  \
    }                                                                                                            \
    /* n times the same value. */                                                                                \
    static A times(A v, uint share) {                                                                            \
      A s = Identity<COMBINE, A>::value();                                                                       \
      REPEATED;                                                                                                  \
      return s;                                                                                                  \
    }                                                                                                            \
    static A same(device const T* x, uint n, uint index, uint count, float p) {                                  \
      typedef compute_t<T> C;                                                                                    \
      return times(Op::map(C(*x), p), index < n ? (n - index + count - 1) / count : 0u);                         \
    }                                                                                                            \
  };
MPSX_ROW_LOOP(CombineSum, + : s, s += v, s = share > 0 ? A(v * A(share)) : s)
MPSX_ROW_LOOP(CombineProduct, * : s, s *= v, for (uint i = 0; i < share; ++i) s *= v)
MPSX_ROW_LOOP(CombineMax, max : s, s = s < v ? v : s, s = share > 0 ? v : s)

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
  if (p.short_rows) {  // one block that lies densely: what follows would cost more than its sum
    device const T* row = x + long(g.group.x) * p.kept_stride[0];
    const uint n = uint(p.inner_size);
    const A mine = g.count == 1 && n < kReduceFew ? Loop::few(row, n, p.p) : Loop::dense(row, n, g.index, g.count, p.p);
    const A v = tg_reduce<Combine>(mine, scratch, g);
    if (g.index == 0) out[g.group.x] = O(Op::finish(v, p));
    return;
  }
  const ReduceRange r = reduce_row_range(p, g.group);
  A total = Identity<Combine, A>::value(), low = A(0);
  const bool one = one_line(p, r);
  const ulong last = one ? r.first + 1 : r.last;
  for (ulong line = r.first; line < last; ++line) {
    device const T* row = x + (r.input + line_offset(p, line));
    for (ulong b = r.begin; b < r.end; b += kReduceBlock) {
      const uint n = uint(smaller(r.end - b, kReduceBlock));
      A block;
      if (p.inner_stride == 1) {
        block = Loop::dense(row + b, n, g.index, g.count, p.p);
      } else if (p.inner_stride == 0) {
        block = Loop::same(row, n, g.index, g.count, p.p);
      } else {
        block = Loop::strided(row + long(b) * p.inner_stride, p.inner_stride, n, g.index, g.count, p.p);
      }
      Fold<Combine>::add(total, low, block);
    }
  }
  A v = tg_reduce<Combine>(Fold<Combine>::settle(total, low), scratch, g);
  if (g.index != 0) return;
  if (one) v = Loop::times(v, uint(r.last - r.first));
  if (p.splits > 1)
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = v;
  else
    out[r.output] = O(Op::finish(v, p));
}

// Lines [first, last) of `n` columns onto those of `block`. N: the compiler knows the number.
template <typename Op, uint N, typename T, typename A>
inline void add_lines(threadgroup A* block, device const T* x, ulong first, ulong last, uint n, float exponent) {
  typedef compute_t<T> C;
  if (N) {
    A held[N ? N : 1];  // in registers
    for (uint c = 0; c < N; ++c) held[c] = block[c];
    for (ulong line = first; line < last; ++line) {
      device const T* row = x + line * N;
      MPSX_VECTORIZE
      for (uint c = 0; c < N; ++c) held[c] = Op::Combine::apply(held[c], Op::map(C(row[c]), exponent));
    }
    for (uint c = 0; c < N; ++c) block[c] = held[c];
    return;
  }
  for (ulong line = first; line < last; ++line) {
    device const T* row = x + line * n;
    MPSX_VECTORIZE
    for (uint c = 0; c < n; ++c) block[c] = Op::Combine::apply(block[c], Op::map(C(row[c]), exponent));
  }
}
// A CPU's thread adds up columns that are few, of lines that follow each other in memory, as if several lines were one.
template <typename Op, typename T, typename A>
inline void reduce_narrow(threadgroup A* total, threadgroup A* low, threadgroup A* block, device const T* x,
                          ulong lines, uint n, float exponent) {
  typedef typename Op::Combine Combine;
  typedef compute_t<T> C;
  uint each = 1;
  while (2 * each * n <= kReduceWide) each *= 2;
  const uint wide = each * n;
  const ulong steps = lines / each;
  for (uint c = 0; c < wide; ++c) total[c] = Identity<Combine, A>::value(), low[c] = A(0);
  for (ulong first = 0; first < steps; first += kLineBlock) {
    const ulong last = smaller(first + kLineBlock, steps);
    for (uint c = 0; c < wide; ++c) block[c] = Identity<Combine, A>::value();
    if (wide == kReduceWide)
      add_lines<Op, kReduceWide>(block, x, first, last, wide, exponent);
    else
      add_lines<Op, 0>(block, x, first, last, wide, exponent);
    for (uint c = 0; c < wide; ++c) fold_into<Combine>(total, low, c, block[c]);
  }
  for (uint half = wide / 2; half >= n; half /= 2)
    for (uint c = 0; c < half; ++c)
      fold_into<Combine>(total, low, c, Fold<Combine>::settle(total[half + c], low[half + c]));
  for (ulong line = steps * each; line < lines; ++line)
    for (uint c = 0; c < n; ++c) fold_into<Combine>(total, low, c, Op::map(C(x[line * n + c]), exponent));
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
  const bool one = one_line(p, r), narrow = g.count == 1 && is_narrow(p, r);
  const ulong end = one ? r.first + 1 : r.last, begin = narrow ? end : r.first;
  if (narrow)
    reduce_narrow<Op>(total, low, block, x + (r.input + line_offset(p, r.first)), r.last - r.first, n, exponent);
  else
    for (uint c = g.index; c < n; c += g.count) total[c] = Identity<Combine, A>::value(), low[c] = A(0);
  for (ulong first = begin; first < end; first += kLineBlock) {
    const ulong last = smaller(first + kLineBlock, end);
    for (uint c = g.index; c < n; c += g.count) block[c] = Identity<Combine, A>::value();
    ulong line = first;
    for (; line + 3 < last; line += 4) {
      device const T* r0 = x + (r.input + line_offset(p, line) + long(r.begin));
      device const T* r1 = x + (r.input + line_offset(p, line + 1) + long(r.begin));
      device const T* r2 = x + (r.input + line_offset(p, line + 2) + long(r.begin));
      device const T* r3 = x + (r.input + line_offset(p, line + 3) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) {
        const A a = Combine::apply(Op::map(C(r0[c]), exponent), Op::map(C(r1[c]), exponent));
        const A b = Combine::apply(Op::map(C(r2[c]), exponent), Op::map(C(r3[c]), exponent));
        block[c] = Combine::apply(block[c], Combine::apply(a, b));
      }
    }
    for (; line < last; ++line) {
      device const T* row = x + (r.input + line_offset(p, line) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) block[c] = Combine::apply(block[c], Op::map(C(row[c]), exponent));
    }
    for (uint c = g.index; c < n; c += g.count) fold_into<Combine>(total, low, c, block[c]);
  }
  if (one) {
    for (uint c = g.index; c < n; c += g.count) {
      total[c] = RowLoop<Combine, Op, T>::times(total[c], uint(r.last - r.first));
      low[c] = A(0);
    }
  }
  // Two loops: one with both stores would be vectorised with masks, and a masked store to memory that is not there, as
  // `parts` is not where nothing is split, is slow on some CPUs.
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
