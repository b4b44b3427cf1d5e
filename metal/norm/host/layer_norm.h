// All gradients of rows where a threadgroup is one thread: the columns' sums lie in the first cache.
#pragma once

template <typename T, typename W, typename S>
kernel void layer_norm_backward_fused(device T* out [[buffer(0)]], device float* parts [[buffer(1)]],
                                      device const T* grad [[buffer(2)]], device const T* in [[buffer(3)]],
                                      device const S* means [[buffer(4)]], device const S* rstds [[buffer(5)]],
                                      device const W* weight [[buffer(6)]], constant RowNormParams& p [[buffer(7)]],
                                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  float dw[4096], db[4096];
  const uint n = p.shape.size, split = g.group.x;
  for (uint i = 0; i < n; ++i) dw[i] = 0.0f, db[i] = 0.0f;
  for (uint row = split * p.rows_per_split; row < min((split + 1) * p.rows_per_split, p.shape.rows); ++row) {
    device const T* x = in + ulong(row) * n;
    device const T* dy = grad + ulong(row) * n;
    device T* dx = out + ulong(row) * n;
    const float mean = float(means[row]), rstd = float(rstds[row]);
    float sum = 0.0f, product = 0.0f;
    MPSX_REDUCE(+ : sum, product)
    for (uint i = 0; i < n; ++i) {
      const float u = float(dy[i]) * float(weight[i]);
      sum += u;
      product += u * (float(x[i]) - mean);
    }
    sum /= float(n);
    product = product / float(n) * rstd * rstd;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) {
      const float d = float(dy[i]), centred = float(x[i]) - mean;
      dx[i] = T(rstd * (d * float(weight[i]) - sum - centred * product));
      dw[i] += d * (centred * rstd);
      db[i] += d;
    }
  }
  device float* w = parts + ulong(split) * n;
  device float* b = w + ulong(p.splits) * n;
  for (uint i = 0; i < n; ++i) w[i] = dw[i], b[i] = db[i];
}
