#pragma once

#include "lib/row_params.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // most columns that a threadgroup owns

// Softmax of the columns of blocks [size, inner].
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;   // columns a threadgroup owns
  uint32_t packed;  // every line begins at a multiple of 16 bytes
};

// Columns that a threadgroup owns: of gradients, and of partial sums, of which it takes a sector of memory a row.
enum : uint32_t { kNormColumns = 256, kMergeColumns = 8 };

// All gradients at once: what a thread holds of a row of each input, and the most elements that a team within a SIMD
// group does; threads of a threadgroup, all of which have registers for that.
enum : uint32_t { kFusedBytes = 32, kFusedColumns = 32 * kFusedBytes / 2, kFusedThreads = 512 };

// Normalisation of rows. Absent tensors are null pointers with their flag unset.
struct RowNormParams {
  RowShape shape;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t packed_lines;            // weight gradients: every row begins at a multiple of 16 bytes
  uint32_t rows_per_split, splits;  // weight gradients: partial sums over ranges of rows
};
