#pragma once

#include "lib/shared.h"

enum : uint32_t { kMatmulColumns = 256 };  // columns a threadgroup of matmul_columns owns
enum : uint32_t { kActivationNone, kActivationRelu, kActivationGelu, kActivationGeluTanh, kActivationSilu };

// Strides of one operand, in elements.
struct MatmulStrides {
  int64_t row, column, batch;
};

// out = activation(alpha * a b * scale + beta * c), matrix by matrix of a batch.
struct MatmulParams {
  MatmulStrides a, b, c, out;  // a: rows x depth, b: depth x columns
  int64_t scale;               // stride of a factor for each column
  int64_t alpha_whole, beta_whole;
  float alpha, beta;
  uint32_t rows, columns, depth;
  uint32_t tile_rows, tile_columns;  // where a threadgroup is one thread
  uint32_t activation, has_c, has_scale;
};
