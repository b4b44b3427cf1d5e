#pragma once

#include "lib/row_params.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // maximum number of columns per threadgroup

// Softmax over the columns of blocks [size, inner].
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;    // columns per threadgroup
  uint32_t aligned;  // every row is 16-byte aligned
};

// Columns per threadgroup: for gradients, and for merging partial sums (one memory sector per row).
enum : uint32_t { kNormColumns = 256, kMergeColumns = 8 };

// Fused gradients: bytes of each input's row per thread, the maximum number of row elements per SIMD group, and the
// maximum number of threads per threadgroup, limited by registers.
enum : uint32_t { kFusedBytes = 32, kFusedColumns = 32 * kFusedBytes / 2, kFusedThreads = 512 };

// Row normalization. has_weight and has_bias are 0 if the tensor is absent, in which case its pointer is null.
struct RowNormParams {
  RowShape shape;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t aligned_rows;            // weight gradients: every row is 16-byte aligned
  uint32_t rows_per_split, splits;  // weight gradients: partial sums over ranges of rows
};
