// Loads 4-bit weights as an operand of a GEMM.
#pragma once

#include "lib/gemm.h"
#include "matmul/params.h"

enum : uint { kHalfBlock = kInt4Block / 2 };

// Loads the weights as operand B (K x N) and dequantizes them to float.
template <typename T>
struct Int4Loader {
  typedef uint Cursor;
  device const uchar* data;
  device const T* scales;  // shape (K / group, N, 2)
  uint N, K, group;
  bool k_contiguous;

  float2 scale_of(uint block, uint column) const {
    device const T* s = scales + 2 * (ulong(block * kInt4Block / group) * N + column);
    return float2(float(s[0]), float(s[1]));
  }
  Cursor at(uint column) const { return column; }
  // Loads four weights, which are the low or the high halves of four bytes.
  uint4 load(Cursor cursor, uint k) const {
    const uint column = min(cursor, N - 1), block = min(k, K - 1) / kInt4Block, i0 = k % kInt4Block;
    device const uchar* bytes = data + (ulong(column) * (K / 2) + block * kHalfBlock + i0 % kHalfBlock);
    const float2 s = scale_of(block, column);
    uint4 r;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const float q = float(i0 < kHalfBlock ? bytes[i] & 15 : bytes[i] >> 4);
      r[i] = as_type<uint>(k < K ? (q - 8.0f) * s.x + s.y : 0.0f);
    }
    return r;
  }
};
