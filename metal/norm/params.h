#pragma once

#include "lib/row_params.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // maximum number of columns per threadgroup

// Softmax over the columns of blocks of shape [size, inner].
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;    // columns per threadgroup
  uint32_t aligned;  // whether every row is 16-byte aligned
};

// Columns per threadgroup in the kernels that compute gradients, and in the kernel that merges partial sums (where each
// row is one memory sector).
enum : uint32_t { kNormColumns = 256, kMergeColumns = 8 };

// Limits for fused gradients: bytes of each input row per thread, elements of a row per SIMD group, and threads per
// threadgroup (limited by registers).
enum : uint32_t { kFusedBytes = 32, kFusedColumns = 32 * kFusedBytes / 2, kFusedThreads = 512 };

// Parameters of row norms. If there is no weight or no bias, has_weight or has_bias is 0 and the pointer is null.
struct RowNormParams {
  RowShape shape;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t aligned_rows;            // for weight gradients: whether every row is 16-byte aligned
  uint32_t rows_per_split, splits;  // each split sums weight gradients over a range of rows
};
