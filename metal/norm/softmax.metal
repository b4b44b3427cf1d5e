// softmax, log_softmax and their gradients: along rows, and along a dimension with others inside it.
#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/math.h"
#include "lib/row.h"
#include "norm/params.h"

template <typename O>
struct ExpBelow {
  float top;
  float at(float x) const { return exp_nonpositive_as<O>(x - top); }
};
struct Minus {
  float top, rest;
  float at(float x, float) const { return x - top - rest; }
};

// A row of -inf has no largest element to subtract: NaN then comes out, as in PyTorch. So it does of a row with a NaN,
// by way of the sum.
template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.rows, p.team, g);
  if (team.row >= p.rows) return;
  const ulong start = ulong(team.row) * p.size;
  Row<Plain<T>> row;
  row.open({in + start}, p, team);
  const ExpBelow<O> f = {team_reduce<CombineMax>(row.largest(), scratch, team, g)};
  const float sum = team_reduce<CombineSum>(row.map_sum(f), scratch, team, g);
  row.store_scaled(out + start, f, 1.0f / sum);
}

template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void log_softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.rows, p.team, g);
  if (team.row >= p.rows) return;
  const ulong start = ulong(team.row) * p.size;
  Row<Plain<T>> row;
  row.open({in + start}, p, team);
  const float top = team_reduce<CombineMax>(row.largest(), scratch, team, g);
  const float sum = team_reduce<CombineSum>(row.sum(ExpBelow<O>{top}), scratch, team, g);
  row.store(out + start, NoExtra(), Minus{top, precise::log(sum)});
}

// Of dy and y: their product, and dx = y * (dy - sum of products).
struct PairProduct {
  float at(thread const Pair& v) const { return v.a * v.b; }
};
struct SoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const { return v.b * (v.a - sum); }
};
// dx = dy - exp(y) * sum(dy), of a sum that is scaled: it may overflow where dx does not.
constant float kSumScale = 0x1p-16f;
struct PairFirst {
  float at(thread const Pair& v) const { return v.a * kSumScale; }
};
template <typename O>
struct LogSoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const {
    return fma(exp_nonpositive_as<O>(v.b) * sum, -1.0f / kSumScale, v.a);
  }
};

// Y: the type of the result and its gradient, O: of the input's gradient. Term: what is summed.
template <typename Y, typename O, typename Term, typename Gradient>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_backward_rows(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                  device const Y* result [[buffer(2)]], constant RowShape& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.rows, p.team, g);
  if (team.row >= p.rows) return;
  const ulong start = ulong(team.row) * p.size;
  Row<Both<Y>> row;
  row.open({grad + start, result + start}, p, team);
  const float sum = team_reduce<CombineSum>(row.sum(Term()), scratch, team, g);
  row.store(out + start, NoExtra(), Gradient{sum});
}

// Along the columns of a block [size, inner], of which a threadgroup owns p.block. A line has two inputs, and F::at
// says what becomes of their elements and of two numbers that the threadgroup knows about each column.
template <typename T, typename F>
struct TableLine {
  template <uint N>
  struct Raw {
    Pack<T, N> a, b;
    Pair table[N];
  };
  device const T* a;
  device const T* b;
  threadgroup const float* first;
  threadgroup const float* second;
  template <uint N>
  Raw<N> fetch(uint c) const {
    Raw<N> raw = {load_pack<N>(a + c), load_pack<N>(b + c)};
#pragma unroll
    for (uint j = 0; j < N; ++j) raw.table[j] = Pair{first[c + j], second[c + j]};
    return raw;
  }
  template <uint N>
  float value(Raw<N> raw, uint j, uint) const {
    return F::at({float(raw.a.v[j]), float(raw.b.v[j])}, raw.table[j]);
  }
  float one(uint c, uint) const { return F::at({float(a[c]), float(b[c])}, {first[c], second[c]}); }
};
template <typename T, typename F>
struct TableLines {
  typedef TableLine<T, F> Line;
  device const T* a;
  device const T* b;
  ulong pitch;
  threadgroup const float* first;
  threadgroup const float* second;
  Line line(ulong i) const { return {a + i * pitch, b + i * pitch, first, second}; }
};

struct ColumnValue {
  static float at(Pair x, Pair) { return x.a; }
};
struct ColumnExp {  // of an element less the column's largest, times a number
  static float at(Pair x, Pair column) { return exp_nonpositive(x.a - column.a) * column.b; }
};
struct ColumnMinus {
  static float at(Pair x, Pair column) { return x.a - column.a - column.b; }
};
struct ColumnScaled {
  static float at(Pair x, Pair) { return x.a * kSumScale; }
};
struct ColumnProduct {
  static float at(Pair x, Pair) { return x.a * x.b; }
};
struct ColumnGradient {
  static float at(Pair x, Pair column) { return x.b * (x.a - column.a); }
};
struct ColumnLogGradient {
  static float at(Pair x, Pair column) { return fma(exp_nonpositive(x.b) * column.a, -1.0f / kSumScale, x.a); }
};

template <typename Combine, uint N, typename Lines>
inline void fold_lines(threadgroup float* result, threadgroup float* scratch, Lines lines, constant SoftmaxParams& p,
                       uint n, GroupThread g) {
  if (p.packed)
    fold_columns<Combine, N, 1>(result, scratch, lines, 0, p.size, n, g);
  else
    fold_columns<Combine, 1, 1>(result, scratch, lines, 0, p.size, n, g);
  tg_barrier();
}
template <uint N, typename O, typename Lines>
inline void store_lines(device O* out, Lines lines, constant SoftmaxParams& p, uint n, GroupThread g) {
  if (p.packed)
    store_columns<N>(out, p.inner, lines, 0, p.size, n, g);
  else
    store_columns<1>(out, p.inner, lines, 0, p.size, n, g);
}

// The tile's first element, and its columns.
inline ulong tile_begin(constant SoftmaxParams& p, uint3 group) {
  return ulong(group.y) * p.size * p.inner + group.x * p.block;
}
inline uint tile_columns(constant SoftmaxParams& p, uint3 group) {
  return min(p.block, p.inner - group.x * p.block);
}

template <typename T, typename O, bool LOG>
kernel void softmax_columns(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                            constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  typedef typename conditional<LOG, ColumnMinus, ColumnExp>::type Result;
  enum : uint { kPack = 4 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float top[kFoldColumns], sum[kFoldColumns], rest[kFoldColumns], scratch[kFoldThreads * kPack];
  const ulong begin = tile_begin(p, g.group);
  const uint n = tile_columns(p, g.group);
  device const T* x = in + begin;
  for (uint c = g.index; c < n; c += g.count) rest[c] = 1.0f;
  tg_barrier();
  fold_lines<CombineMax, kPack>(top, scratch, TableLines<T, ColumnValue>{x, x, p.inner, rest, rest}, p, n, g);
  fold_lines<CombineSum, kPack>(sum, scratch, TableLines<T, ColumnExp>{x, x, p.inner, top, rest}, p, n, g);
  for (uint c = g.index; c < n; c += g.count) rest[c] = LOG ? precise::log(sum[c]) : 1.0f / sum[c];
  tg_barrier();
  store_lines<kPack>(out + begin, TableLines<T, Result>{x, x, p.inner, top, rest}, p, n, g);
}

template <typename Y, typename O, typename Term, typename Gradient>
kernel void softmax_backward_columns(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                     device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                     MPSX_GROUP_PARAMETERS) {
  enum : uint { kPack = 4 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kFoldColumns], scratch[kFoldThreads * kPack];
  const ulong begin = tile_begin(p, g.group);
  const uint n = tile_columns(p, g.group);
  device const Y* dy = grad + begin;
  device const Y* y = result + begin;
  for (uint c = g.index; c < n; c += g.count) sum[c] = 0.0f;
  tg_barrier();
  fold_lines<CombineSum, kPack>(sum, scratch, TableLines<Y, Term>{dy, y, p.inner, sum, sum}, p, n, g);
  store_lines<kPack>(out + begin, TableLines<Y, Gradient>{dy, y, p.inner, sum, sum}, p, n, g);
}

// IN and OUT: forward, of the input and the result; backward, of the result and the input's gradient.
#define MPSX_SOFTMAX(NAMES, GRADIENT_NAMES, T, O)                                                         \
  MPSX_KERNEL("softmax_rows_" NAMES, softmax_rows<T, O>)                                                  \
  MPSX_KERNEL("softmax_columns_" NAMES, softmax_columns<T, O, false>)                                     \
  MPSX_KERNEL("log_softmax_rows_" NAMES, log_softmax_rows<T, O>)                                          \
  MPSX_KERNEL("log_softmax_columns_" NAMES, softmax_columns<T, O, true>)                                  \
  MPSX_KERNEL("softmax_backward_rows_" GRADIENT_NAMES,                                                    \
              softmax_backward_rows<O, T, PairProduct, SoftmaxGradient>)                                  \
  MPSX_KERNEL("softmax_backward_columns_" GRADIENT_NAMES,                                                 \
              softmax_backward_columns<O, T, ColumnProduct, ColumnGradient>)                              \
  MPSX_KERNEL("log_softmax_backward_rows_" GRADIENT_NAMES,                                                \
              softmax_backward_rows<O, T, PairFirst, LogSoftmaxGradient<T>>)                              \
  MPSX_KERNEL("log_softmax_backward_columns_" GRADIENT_NAMES,                                             \
              softmax_backward_columns<O, T, ColumnScaled, ColumnLogGradient>)
MPSX_SOFTMAX("f32", "f32", float, float)
MPSX_SOFTMAX("f16", "f16", half, half)
MPSX_SOFTMAX("bf16", "bf16", bfloat, bfloat)
MPSX_SOFTMAX("f16_f32", "f32_f16", half, float)
MPSX_SOFTMAX("bf16_f32", "f32_bf16", bfloat, float)
