// Root mean square normalisation of rows and its gradients. W: the type of the weight; rstd is float.
#include "norm/fused_gradients.h"

struct ScaledBy {
  float rstd;
  float at(float x, Pair parameters) const { return x * rstd * parameters.a; }
};
template <typename T, typename W>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void rms_norm(device T* out [[buffer(0)]], device float* rstds [[buffer(1)]], device const T* in [[buffer(2)]],
                     device const W* weight [[buffer(3)]], constant RowNormParams& p [[buffer(4)]],
                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.shape.rows, p.shape.team, g);
  if (team.row >= p.shape.rows) return;
  const ulong start = ulong(team.row) * p.shape.size;
  Row<Plain<T>> row;
  row.open({in + start}, p.shape, team);
  float rstd = 0.0f;
  for (float scale = 1.0f;; scale = kSquareScale) {  // times the values, where squares overflow without
    const float squares = team_reduce<CombineSum>(row.sum(SquaredDistance{0.0f, scale}), scratch, team, g);
    rstd = scale / precise::sqrt(squares / float(p.shape.size) + p.eps * scale * scale);
    if (squares <= FLT_MAX || scale < 1.0f) break;
  }
  if (team.index == 0) rstds[team.row] = rstd;
  row.store(out + start, Parameters<W>{weight, weight, p.has_weight != 0, false}, ScaledBy{rstd});
}

// With u = dy * weight:  dx = rstd * (u - x * rstd^2 * mean(u * x)).
struct GradientProduct {
  float at(thread const Pair& v) const { return v.a * v.b; }
};
struct RmsGradient {
  float rstd, product;
  float at(thread const Pair& v, float) const { return rstd * (v.a - v.b * product); }
};
template <typename T, typename W>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void rms_norm_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                              device const W* weight [[buffer(4)]], constant RowNormParams& p [[buffer(5)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.shape.rows, p.shape.team, g);
  if (team.row >= p.shape.rows) return;
  const ulong start = ulong(team.row) * p.shape.size;
  Row<GradientAndInput<T, W>> row;
  row.open({{grad + start, in + start}, weight, p.has_weight != 0}, p.shape, team);
  const float rstd = rstds[team.row], dot = team_reduce<CombineSum>(row.sum(GradientProduct()), scratch, team, g);
  row.store(out + start, NoExtra(), RmsGradient{rstd, dot / float(p.shape.size) * rstd * rstd});
}

// dweight = sum over rows of dy * x * rstd, as partial sums [split][column].
template <typename T>
kernel void rms_norm_backward_weight(device float* parts [[buffer(0)]], device const T* grad [[buffer(1)]],
                                     device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                                     constant RowNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float result[kFoldColumns], scratch[kFoldThreads * kGradientPack];
  weight_gradient<1>(parts, GradientLines<T, float>{grad, in, nullptr, rstds, p.shape.size}, result, scratch, p, g);
}

template <typename T, typename W>
[[max_total_threads_per_threadgroup(kFusedThreads)]]
kernel void rms_norm_backward_fused(device T* out [[buffer(0)]], device float* parts [[buffer(1)]],
                                    device const T* grad [[buffer(2)]], device const T* in [[buffer(3)]],
                                    device const float* rstds [[buffer(4)]], device const W* weight [[buffer(5)]],
                                    constant RowNormParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float columns[kFusedColumns];
  threadgroup float2 scratch[kScratch];
  fused_gradients<false>(out, parts, Both<T>{grad, in}, rstds, rstds, weight, columns, scratch, p, g);
}

#define MPSX_RMS_NORM(NAMES, T, W)                    \
  MPSX_KERNEL("rms_norm_" NAMES, rms_norm<T, W>)      \
  MPSX_KERNEL("rms_norm_backward_" NAMES, rms_norm_backward<T, W>) \
  MPSX_KERNEL("rms_norm_backward_fused_" NAMES, rms_norm_backward_fused<T, W>)
#define MPSX_RMS_NORM_WEIGHT(T, TAG, ...) MPSX_KERNEL("rms_norm_backward_weight_" #TAG, rms_norm_backward_weight<T>)
MPSX_RMS_NORM("f32", float, float)
MPSX_RMS_NORM("f16", half, half)
MPSX_RMS_NORM("bf16", bfloat, bfloat)
MPSX_RMS_NORM("f16_f32", half, float)
MPSX_RMS_NORM("bf16_f32", bfloat, float)
MPSX_FOR_FLOAT(MPSX_RMS_NORM_WEIGHT)
