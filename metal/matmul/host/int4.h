// GEMV with 4-bit weights on the host driver, where a threadgroup is one thread. Loops are vectorized along a block.
#pragma once

template <typename T>
inline float int4_dot(device const T* x, device const uchar* packed, Int4Loader<T> weights, uint column, RowGroup) {
  float part[kHalfBlock];
  for (uint i = 0; i < kHalfBlock; ++i) part[i] = 0.0f;
  for (uint block = 0; block < weights.K / kInt4Block; ++block) {
    const float2 s = weights.scale_of(block, column);
    device const T* low = x + block * kInt4Block;
    device const uchar* bytes = packed + block * kHalfBlock;
    MPSX_VECTORIZE
    for (uint i = 0; i < kHalfBlock; ++i) {
      const float first = float(low[i]), second = float(low[i + kHalfBlock]);
      const float sum = first * (float(int(bytes[i] & 15)) - 8.0f) + second * (float(int(bytes[i] >> 4)) - 8.0f);
      part[i] += s.x * sum + s.y * (first + second);
    }
  }
  float sum = 0.0f;
  for (uint i = 0; i < kHalfBlock; ++i) sum += part[i];
  return sum;
}
