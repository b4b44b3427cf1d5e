// Products of tiles where a threadgroup is one thread: blocks of 4 x 32 sums in registers.
#pragma once

// Vectors of the compiler's own, since arrays of floats end up in memory.
typedef float WideLanes __attribute__((vector_size(64), aligned(4)));
enum : uint { kWideRows = 4, kWideColumns = 32, kWideDepth = 64 };

inline void wide_block(threadgroup const float* a, uint a_stride, threadgroup const float* b, uint b_stride, uint depth,
                       threadgroup float* out, uint out_stride) {
#pragma clang fp contract(fast)
  WideLanes sum[kWideRows][2];
#pragma unroll
  for (uint i = 0; i < kWideRows; ++i) sum[i][0] = WideLanes{}, sum[i][1] = WideLanes{};
  for (uint k = 0; k < depth; ++k) {
    const WideLanes y0 = *(const WideLanes*)(b + k * b_stride), y1 = *(const WideLanes*)(b + k * b_stride + 16);
#pragma unroll
    for (uint i = 0; i < kWideRows; ++i) {
      sum[i][0] += a[i * a_stride + k] * y0;
      sum[i][1] += a[i * a_stride + k] * y1;
    }
  }
#pragma unroll
  for (uint i = 0; i < kWideRows; ++i) {
    *(WideLanes*)(out + i * out_stride) += sum[i][0];
    *(WideLanes*)(out + i * out_stride + 16) += sum[i][1];
  }
}

inline void block_product(threadgroup float* out, uint out_stride, threadgroup const float* a, uint a_stride,
                          threadgroup const float* b, uint b_stride, uint rows, uint columns, uint depth, GroupThread) {
  for (uint j = 0; j < columns; j += kWideColumns)
    for (uint i = 0; i < rows; i += kWideRows)
      wide_block(a + i * a_stride, a_stride, b + j, b_stride, depth, out + i * out_stride + j, out_stride);
}
