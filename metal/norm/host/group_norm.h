// group_norm on the host driver, where a threadgroup is one thread. Uses one loop per channel.
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
  RegisterRow<Loader<T>> row;
  row.open({x}, 0, p.shape.size, true, RowGroup{index, 0, 1, true});
  threadgroup float2 scratch[kScratch];
  const Normalized f = normalized(row, n, p.eps, scratch, RowGroup{index, 0, 1, true}, g);
  means[index] = W(f.mean), rstds[index] = W(f.rstd);
  const uint first = index % p.groups * p.channels;
  if (p.plane == 1 && p.has_weight && p.has_bias) {
    MPSX_VECTORIZE
    for (uint c = 0; c < p.channels; ++c) {
      y[c] = T(f.at(float(x[c]), {float(weight[first + c]), float(bias[first + c])}));
    }
    return;
  }
  for (uint c = 0; c < p.channels; ++c) {
    const float scale = p.has_weight ? float(weight[first + c]) : 1.0f;
    const float shift = p.has_bias ? float(bias[first + c]) : 0.0f;
    device const T* from = x + ulong(c) * p.plane;
    device T* to = y + ulong(c) * p.plane;
    MPSX_VECTORIZE
    for (uint i = 0; i < p.plane; ++i) to[i] = T(f.at(float(from[i]), {scale, shift}));
  }
}
