// GEMV with 8-bit and 4-bit weights on the host driver, where a threadgroup is one thread. Loops are vectorized along a
// block.
#pragma once

template <typename T>
inline void int8_dots(thread RowSums& sum, device const T* x, WeightRows weights, uint blocks, RowGroup) {
  for (uint r = 0; r < kGemvRows; ++r) {
    device const char* bytes = weights.bytes(r);
    float part[Int8Block::kSize] = {};
    for (uint block = 0; block < blocks; ++block) {
      const uint first = block * Int8Block::kSize;
      MPSX_VECTORIZE
      for (uint i = 0; i < Int8Block::kSize; ++i) part[i] += float(x[first + i]) * float(bytes[first + i]);
    }
    for (uint i = 0; i < Int8Block::kSize; ++i) sum[r] += part[i];
  }
}

template <typename T>
inline void int4_dots(thread RowSums& sum, device const T* x, WeightRows weights, device const T* scales,
                      constant Int4Params& p, RowGroup) {
  enum : uint { kHalf = kInt4Block / 2 };
  for (uint r = 0; r < kGemvRows; ++r) {
    float part[kHalf] = {};
    for (uint block = 0; block < p.K / kInt4Block; ++block) {
      device const T* s = scales + 2 * (ulong(block * kInt4Block / p.group) * p.N + weights.row(r));
      const float scale = float(s[0]), zero = float(s[1]);
      device const T* low = x + block * kInt4Block;
      device const char* bytes = weights.bytes(r) + block * kHalf;
      MPSX_VECTORIZE
      for (uint i = 0; i < kHalf; ++i) {
        const int byte = int(uchar(bytes[i]));
        const float first = float(low[i]), second = float(low[i + kHalf]);
        const float dot = first * (float(byte & 15) - 8.0f) + second * (float(byte >> 4) - 8.0f);
        part[i] += scale * dot + zero * (first + second);
      }
    }
    for (uint i = 0; i < kHalf; ++i) sum[r] += part[i];
  }
}
