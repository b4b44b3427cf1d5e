// Layer normalisation of rows and its gradients. S: the type of mean and rstd, W: of weight and bias.
#include "norm/row_norm.h"

template <typename T, typename W, typename S>
kernel void layer_norm(device T* out [[buffer(0)]], device S* mean_out [[buffer(1)]], device S* rstd_out [[buffer(2)]],
                       device const T* in [[buffer(3)]], device const W* weight [[buffer(4)]],
                       device const W* bias [[buffer(5)]], constant RowNormParams& p [[buffer(6)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  device T* y = out + ulong(g.group.x) * n;
  const float2 moments = row_moments(x, n, scratch, g);
  const float mean = moments.x, rstd = 1.0f / precise::sqrt(moments.y + p.eps);
  if (g.index == 0) mean_out[g.group.x] = S(mean), rstd_out[g.group.x] = S(rstd);
  if (p.has_weight && p.has_bias) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count)
      y[i] = T((float(x[i]) - mean) * rstd * float(weight[i]) + float(bias[i]));
  } else if (p.has_weight) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) y[i] = T((float(x[i]) - mean) * rstd * float(weight[i]));
  } else if (p.has_bias) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) y[i] = T((float(x[i]) - mean) * rstd + float(bias[i]));
  } else {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) y[i] = T((float(x[i]) - mean) * rstd);
  }
}

// With u = dy * weight and z = (x - mean) * rstd:  dx = rstd * (u - mean(u) - z * mean(u * z)).
template <typename T, typename W, typename S>
kernel void layer_norm_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                                device const T* in [[buffer(2)]], device const S* means [[buffer(3)]],
                                device const S* rstds [[buffer(4)]], device const W* weight [[buffer(5)]],
                                constant RowNormParams& p [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint n = p.size;
  device const T* x = in + ulong(g.group.x) * n;
  device const T* dy = grad + ulong(g.group.x) * n;
  device T* dx = out + ulong(g.group.x) * n;
  const float mean = float(means[g.group.x]), rstd = float(rstds[g.group.x]);
  float sum = 0.0f, product = 0.0f;
  if (p.has_weight) {
    MPSX_REDUCE(+ : sum, product)
    for (uint i = g.index; i < n; i += g.count) {
      const float u = float(dy[i]) * float(weight[i]);
      sum += u;
      product += u * (float(x[i]) - mean);
    }
  } else {
    MPSX_REDUCE(+ : sum, product)
    for (uint i = g.index; i < n; i += g.count) {
      const float u = float(dy[i]);
      sum += u;
      product += u * (float(x[i]) - mean);
    }
  }
  sum = tg_sum(sum, scratch, g) / float(n);
  product = tg_sum(product, scratch, g) / float(n) * rstd * rstd;
  if (p.has_weight) {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count)
      dx[i] = T(rstd * (float(dy[i]) * float(weight[i]) - sum - (float(x[i]) - mean) * product));
  } else {
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count)
      dx[i] = T(rstd * (float(dy[i]) - sum - (float(x[i]) - mean) * product));
  }
}

// dweight = sum over rows of dy * z, dbias = sum of dy: a threadgroup owns columns and a range of rows, whose partial
// sums go to parts [2][split][column].
template <typename T, typename S>
kernel void layer_norm_backward_weight(device float* parts [[buffer(0)]], device const T* grad [[buffer(1)]],
                                       device const T* in [[buffer(2)]], device const S* means [[buffer(3)]],
                                       device const S* rstds [[buffer(4)]], constant RowNormParams& p [[buffer(5)]],
                                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float dw[kNormColumns], db[kNormColumns];
  const uint first = g.group.x * kNormColumns, n = min(uint(kNormColumns), p.size - first);
  const uint row0 = g.group.y * p.rows_per_split, row1 = min(row0 + p.rows_per_split, p.rows);
  for (uint c = g.index; c < n; c += g.count) dw[c] = 0.0f, db[c] = 0.0f;
  for (uint row = row0; row < row1; ++row) {
    device const T* x = in + (ulong(row) * p.size + first);
    device const T* dy = grad + (ulong(row) * p.size + first);
    const float mean = float(means[row]), rstd = float(rstds[row]);
    MPSX_VECTORIZE
    for (uint c = g.index; c < n; c += g.count) {
      const float d = float(dy[c]);
      dw[c] += d * ((float(x[c]) - mean) * rstd);
      db[c] += d;
    }
  }
  device float* w = parts + (ulong(g.group.y) * p.size + first);
  device float* b = w + ulong(p.splits) * p.size;
  for (uint c = g.index; c < n; c += g.count) w[c] = dw[c], b[c] = db[c];
}

// All three gradients of a range of rows at once, so that memory is read once. `sums`: dweight and dbias of the range,
// of which each thread has columns of its own.
template <typename T, typename W, typename S>
kernel void layer_norm_backward_fused(device T* out [[buffer(0)]], device float* parts [[buffer(1)]],
                                      device const T* grad [[buffer(2)]], device const T* in [[buffer(3)]],
                                      device const S* means [[buffer(4)]], device const S* rstds [[buffer(5)]],
                                      device const W* weight [[buffer(6)]], constant RowNormParams& p [[buffer(7)]],
                                      threadgroup float* sums [[threadgroup(0)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint n = p.size, row0 = g.group.x * p.rows_per_split, row1 = min(row0 + p.rows_per_split, p.rows);
  threadgroup float* dw = sums;
  threadgroup float* db = sums + n;
  for (uint i = g.index; i < n; i += g.count) dw[i] = 0.0f, db[i] = 0.0f;
  for (uint row = row0; row < row1; ++row) {
    device const T* x = in + ulong(row) * n;
    device const T* dy = grad + ulong(row) * n;
    device T* dx = out + ulong(row) * n;
    const float mean = float(means[row]), rstd = float(rstds[row]);
    float sum = 0.0f, product = 0.0f;
    MPSX_REDUCE(+ : sum, product)
    for (uint i = g.index; i < n; i += g.count) {
      const float u = float(dy[i]) * float(weight[i]);
      sum += u;
      product += u * (float(x[i]) - mean);
    }
    sum = tg_sum(sum, scratch, g) / float(n);
    product = tg_sum(product, scratch, g) / float(n) * rstd * rstd;
    MPSX_VECTORIZE
    for (uint i = g.index; i < n; i += g.count) {
      const float d = float(dy[i]), centred = float(x[i]) - mean;
      dx[i] = T(rstd * (d * float(weight[i]) - sum - centred * product));
      dw[i] += d * (centred * rstd);
      db[i] += d;
    }
  }
  device float* w = parts + ulong(g.group.x) * n;
  device float* b = w + ulong(p.splits) * n;
  for (uint i = g.index; i < n; i += g.count) w[i] = dw[i], b[i] = db[i];
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
