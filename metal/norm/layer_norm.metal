// layer_norm over rows, and its gradients. S: type of the mean and rstd. W: type of the weight and bias.
#include "norm/fused_gradients.h"
#include "norm/normalized.h"

template <typename T, typename W, typename S>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void layer_norm(device T* out [[buffer(0)]], device S* means [[buffer(1)]], device S* rstds [[buffer(2)]],
                       device const T* in [[buffer(3)]], device const W* weight [[buffer(4)]],
                       device const W* bias [[buffer(5)]], constant RowNormParams& p [[buffer(6)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p.shape, group);
  const Normalized f = normalized(row, float(p.shape.size), p.eps, scratch, group, g);
  if (group.index == 0) means[group.row] = S(f.mean), rstds[group.row] = S(f.rstd);
  row.store(out + start, Parameters<W>{weight, bias, p.has_weight != 0, p.has_bias != 0}, f);
}

// dx = rstd * (u - mean(u) - z * mean(u * z)), where u = dy * weight and z = (x - mean) * rstd.
struct NormGradient {
  float mean, rstd, shift, slope;
  float at(thread const Pair& v, float) const { return rstd * (v.a - shift - (v.b - mean) * slope); }
};
template <typename T, typename W, typename S>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void layer_norm_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                                device const T* in [[buffer(2)]], device const S* means [[buffer(3)]],
                                device const S* rstds [[buffer(4)]], device const W* weight [[buffer(5)]],
                                constant RowNormParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const RowGroup group = row_group(p.shape.rows, p.shape.row_threads, g);
  if (group.row >= p.shape.rows) return;
  const ulong start = ulong(group.row) * p.shape.size;
  RegisterRow<GradientLoader<T, W>> row;
  row.open({{grad + start, in + start}, weight, p.has_weight != 0}, p.shape, group);
  const float mean = float(means[group.row]), rstd = float(rstds[group.row]);
  const float2 sums = rg_reduce<CombineSum>(row.sums(Gradient(), GradientTimesCentered{mean}), scratch, group, g) /
                      float2(float(p.shape.size));
  row.store(out + start, NoAux(), NormGradient{mean, rstd, sums.x, sums.y * rstd * rstd});
}

// dweight is the sum of dy * z over all rows, and dbias is the sum of dy. Each threadgroup sums a range of rows in a
// tile of columns and stores partial sums in parts[2][split][column].
template <typename T, typename S>
kernel void layer_norm_backward_weight(device float* parts [[buffer(0)]], device const T* grad [[buffer(1)]],
                                       device const T* in [[buffer(2)]], device const S* means [[buffer(3)]],
                                       device const S* rstds [[buffer(4)]], constant RowNormParams& p [[buffer(5)]],
                                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float result[2 * kColumnTile], scratch[kColumnThreads * kGradientVector];
  weight_gradient<2>(parts, GradientMatrix<T, S>{grad, in, means, rstds, p.shape.size}, result, scratch, p, g);
}

template <typename T, typename W, typename S>
[[max_total_threads_per_threadgroup(kFusedThreads)]]
kernel void layer_norm_backward_fused(device T* out [[buffer(0)]], device float* parts [[buffer(1)]],
                                      device const T* grad [[buffer(2)]], device const T* in [[buffer(3)]],
                                      device const S* means [[buffer(4)]], device const S* rstds [[buffer(5)]],
                                      device const W* weight [[buffer(6)]], constant RowNormParams& p [[buffer(7)]],
                                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float columns[kFusedColumns];
  threadgroup float2 scratch[kScratch];
  fused_gradients<true>(out, parts, PairLoader<T>{grad, in}, means, rstds, weight, columns, scratch, p, g);
}

#define MPSX_LAYER_NORM(NAMES, T, W, S)                           \
  MPSX_KERNEL("layer_norm_" NAMES, layer_norm<T, W, S>)           \
  MPSX_KERNEL("layer_norm_backward_" NAMES, layer_norm_backward<T, W, S>) \
  MPSX_KERNEL("layer_norm_backward_fused_" NAMES, layer_norm_backward_fused<T, W, S>)
MPSX_LAYER_NORM("f32", float, float, float)
MPSX_LAYER_NORM("f16", half, half, half)
MPSX_LAYER_NORM("bf16", bfloat, bfloat, bfloat)
MPSX_LAYER_NORM("f16_f32", half, float, float)
MPSX_LAYER_NORM("bf16_f32", bfloat, float, float)
MPSX_KERNEL("layer_norm_backward_weight_f32", layer_norm_backward_weight<float, float>)
MPSX_KERNEL("layer_norm_backward_weight_f16", layer_norm_backward_weight<half, half>)
MPSX_KERNEL("layer_norm_backward_weight_bf16", layer_norm_backward_weight<bfloat, bfloat>)
MPSX_KERNEL("layer_norm_backward_weight_f16_f32", layer_norm_backward_weight<half, float>)
MPSX_KERNEL("layer_norm_backward_weight_bf16_f32", layer_norm_backward_weight<bfloat, float>)
