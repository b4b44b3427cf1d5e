#pragma once

#include "lib/shared.h"

enum : uint32_t { kSoftmaxColumns = 256 };  // most columns that a threadgroup owns

// Softmax along one dimension: rows of `size` elements, or (inner > 1) columns of a block [size, inner].
struct SoftmaxParams {
  uint32_t size, inner;
  uint32_t block;  // columns a threadgroup owns
};

enum : uint32_t { kNormColumns = 256 };  // columns a threadgroup owns

// Normalisation of rows. Absent tensors are null pointers with their flag unset.
struct RowNormParams {
  uint32_t rows, size;
  float eps;
  uint32_t has_weight, has_bias;
  uint32_t rows_per_split, splits;  // weight gradients: partial sums over ranges of rows
};
