// Gradients of a row norm on the host driver, where a threadgroup is one thread. Column sums stay in the L1 cache.
#pragma once

template <bool CENTERED, typename T, typename W, typename S>
inline void fused_gradients(device T* out, device float* parts, PairLoader<T> in, device const S* means,
                            device const S* rstds, device const W* weight, threadgroup float* columns,
                            threadgroup float2* scratch, constant RowNormParams& p, GroupThread g) {
  float dw[4096], db[4096];
  const uint n = p.shape.size, split = g.group.x;
  for (uint i = 0; i < n; ++i) dw[i] = 0.0f, db[i] = 0.0f;
  for (uint row = split * p.rows_per_split; row < min((split + 1) * p.rows_per_split, p.shape.rows); ++row) {
    device const T* dy = in.x + ulong(row) * n;
    device const T* x = in.y + ulong(row) * n;
    device T* dx = out + ulong(row) * n;
    const float mean = CENTERED ? float(means[row]) : 0.0f, rstd = float(rstds[row]);
    float sum = 0.0f, product = 0.0f;
    MPSX_REDUCE(+ : sum, product)
    for (uint i = 0; i < n; ++i) {
      const float u = float(dy[i]) * float(weight[i]);
      sum += u;
      product += u * (float(x[i]) - mean);
    }
    sum = CENTERED ? sum / float(n) : 0.0f;
    product = product / float(n) * rstd * rstd;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) {
      const float d = float(dy[i]), centered = float(x[i]) - mean;
      dx[i] = T(rstd * (d * float(weight[i]) - sum - centered * product));
      dw[i] += d * (centered * rstd);
      db[i] += d;
    }
  }
  device float* w = parts + ulong(split) * n;
  for (uint i = 0; i < n; ++i) w[i] = dw[i];
  if (!CENTERED) return;
  device float* b = w + ulong(p.splits) * n;
  for (uint i = 0; i < n; ++i) b[i] = db[i];
}
