// softmax, log_softmax and their gradients along a dimension that is not the innermost.
#include "lib/columns.h"
#include "lib/instantiate.h"
#include "norm/params.h"
#include "norm/softmax.h"

// Applies softmax along the `size` dimension of a tensor [outer, size, inner]. A threadgroup processes p.block adjacent
// columns and reads them once per pass.
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
  threadgroup const float* norm;  // log(sum) for log_softmax; 1 / sum for softmax
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

// Applies a functor for rows to columns.
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

// T is the type of the input, and O the type of the result. The backward kernels read type O and write type T.
#define MPSX_SOFTMAX(TAGS, GRADIENT_TAGS, T, O)                                      \
  MPSX_KERNEL("softmax_columns_" TAGS, softmax_columns<T, O, false>)                 \
  MPSX_KERNEL("log_softmax_columns_" TAGS, softmax_columns<T, O, true>)              \
  MPSX_KERNEL("softmax_backward_columns_" GRADIENT_TAGS,                             \
              softmax_backward_columns<O, T, GradTimesResult, SoftmaxGradient>)      \
  MPSX_KERNEL("log_softmax_backward_columns_" GRADIENT_TAGS,                         \
              softmax_backward_columns<O, T, ScaledGrad, LogSoftmaxGradient<float>>)
MPSX_SOFTMAX("f32", "f32", float, float)
MPSX_SOFTMAX("f16", "f16", half, half)
MPSX_SOFTMAX("bf16", "bf16", bfloat, bfloat)
MPSX_SOFTMAX("f16_f32", "f32_f16", half, float)
MPSX_SOFTMAX("bf16_f32", "f32_bf16", bfloat, float)
