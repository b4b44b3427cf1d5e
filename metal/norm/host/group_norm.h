// group_norm where a threadgroup is one thread: a loop for every channel.
#pragma once

template <typename T, typename W>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void group_norm(device T* out [[buffer(0)]], device W* means [[buffer(1)]], device W* rstds [[buffer(2)]],
                       device const T* in [[buffer(3)]], device const W* weight [[buffer(4)]],
                       device const W* bias [[buffer(5)]], constant GroupNormParams& p [[buffer(6)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint index = g.group.x;
  device const T* x = in + ulong(index) * p.shape.size;
  device T* y = out + ulong(index) * p.shape.size;
  const float n = float(p.shape.size);
  Row<Plain<T>> row;
  row.begin({x}, 0, p.shape.size, true, Team{index, 0, 1, true});
  const float near = row.sum(Itself()) / n;
  const float2 rest = row.sums(Distance{near}, SquaredDistance{near}) / float2(n);
  const float mean = near + rest.x, variance = propagating_max(rest.y - rest.x * rest.x, 0.0f);
  const float rstd = 1.0f / precise::sqrt(variance + p.eps);
  means[index] = W(mean), rstds[index] = W(rstd);
  const uint first = index % p.groups * p.channels;
  if (p.plane == 1 && p.has_weight && p.has_bias) {
    MPSX_VECTORIZE
    for (uint c = 0; c < p.channels; ++c)
      y[c] = T(fma((float(x[c]) - mean) * rstd, float(weight[first + c]), float(bias[first + c])));
    return;
  }
  for (uint c = 0; c < p.channels; ++c) {
    const float scale = p.has_weight ? rstd * float(weight[first + c]) : rstd;
    const float shift = p.has_bias ? float(bias[first + c]) : 0.0f;
    device const T* from = x + ulong(c) * p.plane;
    device T* to = y + ulong(c) * p.plane;
    MPSX_VECTORIZE
    for (uint i = 0; i < p.plane; ++i) to[i] = T(fma(float(from[i]) - mean, scale, shift));
  }
}
