#pragma once

#include "lib/row_params.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // maximum number of columns per threadgroup

// Softmax over the columns of [size, inner] blocks.
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;    // columns per threadgroup
  uint32_t aligned;  // whether every row is 16-byte aligned
};

// Columns per threadgroup, in the gradient kernels and in the kernel that merges partial sums (one memory sector per
// row).
enum : uint32_t { kNormColumns = 256, kMergeColumns = 8 };

// Fused gradients: bytes of each input row per thread, maximum number of row elements per SIMD group, and maximum
// number of threads per threadgroup (limited by registers).
enum : uint32_t { kFusedBytes = 32, kFusedColumns = 32 * kFusedBytes / 2, kFusedThreads = 512 };

// Row normalization. If weight or bias is absent, has_weight or has_bias is 0 and the pointer is null.
struct RowNormParams {
  RowShape shape;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t aligned_rows;            // whether every row is 16-byte aligned, for weight gradients
  uint32_t rows_per_split, splits;  // each split sums weight gradients over a range of rows
};
