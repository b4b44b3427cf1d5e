#pragma once

#include "lib/row_params.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // the most columns that a threadgroup owns

// Softmax of the columns of blocks [size, inner].
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;    // columns a threadgroup owns
  uint32_t aligned;  // every row starts at a multiple of 16 bytes
};

// Columns that a threadgroup owns: of gradients, and of partial sums, a sector of memory per row.
enum : uint32_t { kNormColumns = 256, kMergeColumns = 8 };

// Fused gradients: bytes of each input's row that a thread holds, the most elements of a row that a SIMD group holds,
// and the most threads of a threadgroup that have registers for them.
enum : uint32_t { kFusedBytes = 32, kFusedColumns = 32 * kFusedBytes / 2, kFusedThreads = 512 };

// Normalization of rows. Absent tensors are null pointers whose flag is 0.
struct RowNormParams {
  RowShape shape;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t aligned_rows;            // weight gradients: every row starts at a multiple of 16 bytes
  uint32_t rows_per_split, splits;  // weight gradients: partial sums over ranges of rows
};
