// Root mean square normalisation of rows and its gradients. W: the type of the weight; rstd is float.
#include "norm/row_norm.h"

template <typename T, typename W>
kernel void rms_norm(device T* out [[buffer(0)]], device float* rstd_out [[buffer(1)]],
                     device const T* in [[buffer(2)]],
                     device const W* weight [[buffer(3)]], constant RowNormParams& p [[buffer(4)]],
                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  device T* y = out + ulong(g.group.x) * n;
  float squares = 0.0f;
  MPSX_REDUCE(+ : squares)
  for (uint i = g.index; i < n; i += g.count) squares += float(x[i]) * float(x[i]);
  const float rstd = 1.0f / precise::sqrt(tg_sum(squares, scratch, g) / float(n) + p.eps);
  if (g.index == 0) rstd_out[g.group.x] = rstd;
  if (p.has_weight) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) y[i] = T(float(x[i]) * rstd * float(weight[i]));
  } else {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) y[i] = T(float(x[i]) * rstd);
  }
}

// With u = dy * weight:  dx = rstd * (u - x * rstd^2 * mean(u * x)).
template <typename T, typename W>
kernel void rms_norm_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                              device const W* weight [[buffer(4)]], constant RowNormParams& p [[buffer(5)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  device const T* dy = grad + ulong(g.group.x) * n;
  device T* dx = out + ulong(g.group.x) * n;
  const float rstd = rstds[g.group.x];
  float product = 0.0f;
  if (p.has_weight) {
    MPSX_REDUCE(+ : product)
    for (uint i = g.index; i < n; i += g.count) product += float(dy[i]) * float(weight[i]) * float(x[i]);
  } else {
    MPSX_REDUCE(+ : product)
    for (uint i = g.index; i < n; i += g.count) product += float(dy[i]) * float(x[i]);
  }
  product = tg_sum(product, scratch, g) / float(n) * rstd * rstd;
  if (p.has_weight) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count)
      dx[i] = T(rstd * (float(dy[i]) * float(weight[i]) - float(x[i]) * product));
  } else {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) dx[i] = T(rstd * (float(dy[i]) - float(x[i]) * product));
  }
}

// dweight = sum over rows of dy * x * rstd, as partial sums [split][column].
template <typename T>
kernel void rms_norm_backward_weight(device float* parts [[buffer(0)]], device const T* grad [[buffer(1)]],
                                     device const T* in [[buffer(2)]], device const float* rstds [[buffer(3)]],
                                     constant RowNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float dw[kNormColumns];
  const uint first = g.group.x * kNormColumns, n = min(uint(kNormColumns), p.size - first);
  const uint row0 = g.group.y * p.rows_per_split, row1 = min(row0 + p.rows_per_split, p.rows);
  for (uint c = g.index; c < n; c += g.count) dw[c] = 0.0f;
  for (uint row = row0; row < row1; ++row) {
    device const T* x = in + (ulong(row) * p.size + first);
    device const T* dy = grad + (ulong(row) * p.size + first);
    const float rstd = rstds[row];
    MPSX_VECTORIZE
    for (uint c = g.index; c < n; c += g.count) dw[c] += float(dy[c]) * (float(x[c]) * rstd);
  }
  device float* w = parts + (ulong(g.group.y) * p.size + first);
  for (uint c = g.index; c < n; c += g.count) w[c] = dw[c];
}

#define MPSX_RMS_NORM(NAMES, T, W)                    \
  MPSX_KERNEL("rms_norm_" NAMES, rms_norm<T, W>)      \
  MPSX_KERNEL("rms_norm_backward_" NAMES, rms_norm_backward<T, W>)
#define MPSX_RMS_NORM_WEIGHT(T, TAG, ...) MPSX_KERNEL("rms_norm_backward_weight_" #TAG, rms_norm_backward_weight<T>)
MPSX_RMS_NORM("f32", float, float)
MPSX_RMS_NORM("f16", half, half)
MPSX_RMS_NORM("bf16", bfloat, bfloat)
MPSX_RMS_NORM("f16_f32", half, float)
MPSX_RMS_NORM("bf16_f32", bfloat, float)
MPSX_FOR_FLOAT(MPSX_RMS_NORM_WEIGHT)
