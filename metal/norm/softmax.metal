// softmax, log_softmax and their gradients, along contiguous rows and along an outer dimension (columns).
#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/math.h"
#include "lib/row.h"
#include "norm/params.h"

// exp(x - max), with the precision of O.
template <typename O>
struct ExpSubMax {
  float row_max;
  float at(float x) const { return exp_nonpositive_as<O>(x - row_max); }
};

// T: input type. O: output type. As in PyTorch, a row of -inf or a row with a NaN yields NaN: the maximum ignores
// NaN, but the sum propagates it.
template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p, group);
  const ExpSubMax<O> f = {rg_reduce<CombineMax>(row.thread_max(), scratch, group, g)};
  const float row_sum = rg_reduce<CombineSum>(row.map_sum(f), scratch, group, g);
  row.store_scaled(out + start, f, 1.0f / row_sum);
}

struct LogSoftmaxEpilogue {
  float row_max, log_sum;
  float at(float x, float) const { return x - row_max - log_sum; }
};
template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void log_softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p, group);
  const float row_max = rg_reduce<CombineMax>(row.thread_max(), scratch, group, g);
  const float row_sum = rg_reduce<CombineSum>(row.sum(ExpSubMax<O>{row_max}), scratch, group, g);
  row.store(out + start, NoAux(), LogSoftmaxEpilogue{row_max, precise::log(row_sum)});
}

// softmax: dx = y * (dy - sum(dy * y)). A pair is (dy, y).
struct GradTimesResult {
  float at(thread const Pair& v) const { return v.a * v.b; }
};
struct SoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const { return v.b * (v.a - sum); }
};
// log_softmax: dx = dy - exp(y) * sum(dy). The sum is scaled, since it may overflow even if dx does not.
constant float kSumScale = 0x1p-16f;
struct ScaledGrad {
  float at(thread const Pair& v) const { return v.a * kSumScale; }
};
template <typename O>
struct LogSoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const {
    return fma(exp_nonpositive_as<O>(v.b) * sum, -1.0f / kSumScale, v.a);
  }
};

// Y: type of the output and its gradient. O: type of the input gradient. Sums Term, then computes dx with
// Gradient{sum}.
template <typename Y, typename O, typename Term, typename Gradient>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_backward_rows(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                  device const Y* result [[buffer(2)]], constant RowShape& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<PairLoader<Y>> row;
  row.open({grad + start, result + start}, p, group);
  const float sum = rg_reduce<CombineSum>(row.sum(Term()), scratch, group, g);
  row.store(out + start, NoAux(), Gradient{sum});
}

// Softmax over the columns of a [size, inner] block. A threadgroup reads its p.block columns once per pass.
enum : uint { kSoftmaxVector = 4 };
inline ulong tile_start(constant SoftmaxParams& p, uint3 group) {
  return ulong(group.y) * p.size * p.inner + group.x * p.block;
}
inline uint tile_columns(constant SoftmaxParams& p, uint3 group) {
  return min(p.block, p.inner - group.x * p.block);
}

struct ColumnInput {
  float at(Pair x, uint, uint) const { return x.a; }
};
struct ColumnExpSubMax {
  threadgroup const float* column_max;
  float at(Pair x, uint c, uint) const { return exp_nonpositive(x.a - column_max[c]); }
};
template <bool LOG>
struct ColumnEpilogue {
  threadgroup const float* column_max;
  threadgroup const float* norm;  // log(sum), or 1 / sum
  float at(Pair x, uint c, uint) const {
    const float d = x.a - column_max[c];
    return LOG ? d - norm[c] : exp_nonpositive(d) * norm[c];
  }
};
template <typename T, typename O, bool LOG>
kernel void softmax_columns(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                            constant SoftmaxParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float column_max[kColumnTile], norm[kColumnTile], scratch[kColumnThreads * kSoftmaxVector];
  const ulong start = tile_start(p, g.group);
  const uint n = tile_columns(p, g.group);
  device const T* x = in + start;
  column_reduce<CombineMax, kSoftmaxVector, 1>(column_max, scratch, PairMatrix<T, ColumnInput>{x, x, p.inner, {}}, 0,
                                               p.size, n, p.aligned, g);
  column_reduce<CombineSum, kSoftmaxVector, 1>(
      norm, scratch, PairMatrix<T, ColumnExpSubMax>{x, x, p.inner, {column_max}}, 0, p.size, n, p.aligned, g);
  for (uint c = g.index; c < n; c += g.count) norm[c] = LOG ? precise::log(norm[c]) : 1.0f / norm[c];
  tg_barrier();
  column_store<kSoftmaxVector>(out + start, p.inner,
                               PairMatrix<T, ColumnEpilogue<LOG>>{x, x, p.inner, {column_max, norm}}, 0, p.size, n,
                               p.aligned, g);
}

// Apply the row functors to columns.
template <typename Term>
struct ColumnTerm {
  float at(Pair v, uint, uint) const { return Term().at(v); }
};
template <typename Gradient>
struct ColumnGradient {
  threadgroup const float* sum;
  float at(Pair v, uint c, uint) const { return Gradient{sum[c]}.at(v, 0.0f); }
};
template <typename Y, typename O, typename Term, typename Gradient>
kernel void softmax_backward_columns(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                     device const Y* result [[buffer(2)]], constant SoftmaxParams& p [[buffer(3)]],
                                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kColumnTile], scratch[kColumnThreads * kSoftmaxVector];
  const ulong start = tile_start(p, g.group);
  const uint n = tile_columns(p, g.group);
  device const Y* dy = grad + start;
  device const Y* y = result + start;
  column_reduce<CombineSum, kSoftmaxVector, 1>(sum, scratch, PairMatrix<Y, ColumnTerm<Term>>{dy, y, p.inner, {}}, 0,
                                               p.size, n, p.aligned, g);
  column_store<kSoftmaxVector>(out + start, p.inner, PairMatrix<Y, ColumnGradient<Gradient>>{dy, y, p.inner, {sum}}, 0,
                               p.size, n, p.aligned, g);
}

// T: input type. O: output type. The backward kernels read O and write T.
#define MPSX_SOFTMAX(TAGS, GRADIENT_TAGS, T, O)                                               \
  MPSX_KERNEL("softmax_rows_" TAGS, softmax_rows<T, O>)                                       \
  MPSX_KERNEL("softmax_columns_" TAGS, softmax_columns<T, O, false>)                          \
  MPSX_KERNEL("log_softmax_rows_" TAGS, log_softmax_rows<T, O>)                               \
  MPSX_KERNEL("log_softmax_columns_" TAGS, softmax_columns<T, O, true>)                       \
  MPSX_KERNEL("softmax_backward_rows_" GRADIENT_TAGS,                                         \
              softmax_backward_rows<O, T, GradTimesResult, SoftmaxGradient>)                  \
  MPSX_KERNEL("softmax_backward_columns_" GRADIENT_TAGS,                                      \
              softmax_backward_columns<O, T, GradTimesResult, SoftmaxGradient>)               \
  MPSX_KERNEL("log_softmax_backward_rows_" GRADIENT_TAGS,                                     \
              softmax_backward_rows<O, T, ScaledGrad, LogSoftmaxGradient<T>>)                 \
  MPSX_KERNEL("log_softmax_backward_columns_" GRADIENT_TAGS,                                  \
              softmax_backward_columns<O, T, ScaledGrad, LogSoftmaxGradient<float>>)
MPSX_SOFTMAX("f32", "f32", float, float)
MPSX_SOFTMAX("f16", "f16", half, half)
MPSX_SOFTMAX("bf16", "bf16", bfloat, bfloat)
MPSX_SOFTMAX("f16_f32", "f32_f16", half, float)
MPSX_SOFTMAX("bf16_f32", "f32_bf16", bfloat, float)
