// rms_norm over rows, and its gradients. W: type of the weight. rstd is always float.
#include "norm/deviation.h"
#include "norm/fused_gradients.h"

struct RmsEpilogue {
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
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p.shape, group);
  float rstd = 0.0f;
  for (float scale = 1.0f;; scale = kSquareScale) {  // if the squares overflow, repeat with scaled values
    const float squares = rg_reduce<CombineSum>(row.sum(SquaredDeviation{0.0f, scale}), scratch, group, g);
    rstd = scale / precise::sqrt(squares / float(p.shape.size) + p.eps * scale * scale);
    if (squares <= FLT_MAX || scale < 1.0f) break;
  }
  if (group.index == 0) rstds[group.row] = rstd;
  row.store(out + start, Parameters<W>{weight, weight, p.has_weight != 0, false}, RmsEpilogue{rstd});
}

// dx = rstd * (u - x * rstd^2 * mean(u * x)), where u = dy * weight.
struct GradientTimesInput {
  float at(thread const Pair& v) const { return v.a * v.b; }
};
struct RmsGradient {
  float rstd, slope;
  float at(thread const Pair& v, float) const { return rstd * (v.a - v.b * slope); }
};
template <typename T, typename W>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void rms_norm_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                              device const W* weight [[buffer(4)]], constant RowNormParams& p [[buffer(5)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<GradientLoader<T, W>> row;
  row.open({{grad + start, in + start}, weight, p.has_weight != 0}, p.shape, group);
  const float rstd = rstds[group.row], dot = rg_reduce<CombineSum>(row.sum(GradientTimesInput()), scratch, group, g);
  row.store(out + start, NoAux(), RmsGradient{rstd, dot / float(p.shape.size) * rstd * rstd});
}

// dweight is the sum of dy * x * rstd over all rows. The kernel stores partial sums in parts[split][column].
template <typename T>
kernel void rms_norm_backward_weight(device float* parts [[buffer(0)]], device const T* grad [[buffer(1)]],
                                     device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                                     constant RowNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float result[kColumnTile], scratch[kColumnThreads * kGradientVector];
  weight_gradient<1>(parts, GradientMatrix<T, float>{grad, in, nullptr, rstds, p.shape.size}, result, scratch, p, g);
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
  fused_gradients<false>(out, parts, PairLoader<T>{grad, in}, rstds, rstds, weight, columns, scratch, p, g);
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
