// Statistics of short planes on the host driver, where a threadgroup is one thread. Accumulates 16 sums in parallel and
// adds them up once per pass.
#pragma once

// Sums f(element) over the elements of a chunk in 16 parallel lanes.
template <typename T, typename F>
inline float sum_of_planes(device const T* in, PlaneChunk s, F f) {
  float lanes[16] = {};
  for (uint n = s.first; n < s.last; ++n) {
    device const T* x = in + (s.offset + (n - s.first) * s.step);
    uint i = 0;
    for (; i + 16 <= s.length; i += 16) {
      MPSX_VECTORIZE
      for (uint j = 0; j < 16; ++j) lanes[j] += f.at(float(x[i + j]));
    }
    for (uint j = 0; i + j < s.length; ++j) lanes[j] += f.at(float(x[i + j]));
  }
  float sum = 0.0f;
  for (uint j = 0; j < 16; ++j) sum += lanes[j];
  return sum;
}

template <typename T>
kernel void batch_norm_stats(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint chunk = g.group.x, channel = g.group.y;
  const PlaneChunk s = plane_chunk(p, chunk, channel);
  const float count = float((s.last - s.first) * s.length), head = float(in[s.offset]);
  const ulong quantity = ulong(p.channels) * p.chunks;
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  for (float scale = 1.0f;; scale = kSquareScale) {
    const float first = is_infinite(head) ? 0.0f : head * scale;
    const float mean = first + sum_of_planes(in, s, Deviation{first, scale}) / count;
    const float squares = sum_of_planes(in, s, SquaredDeviation{mean, scale});
    if (scale == 1.0f && !(squares <= FLT_MAX)) continue;
    to[0] = count;
    to[quantity] = mean / scale;
    to[2 * quantity] = precise::sqrt(squares / count) / scale;
    return;
  }
}
