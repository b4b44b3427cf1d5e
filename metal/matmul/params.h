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
  uint32_t activation, has_c, has_scale;
  uint32_t wide_a, wide_b;        // whether 16 bytes of a factor's neighbours are aligned
  uint32_t splits, split_depth;  // the parts of the depth that threadgroups of their own add up, and a part's depth
  uint32_t team, unused;         // matmul_rows: threads that share an element of the result (lib/team.h)
};

// Weights of four bits, two a byte: a row's depth is in blocks, whose byte i has element i in its low half and element
// i + kInt4Block / 2 in its high one. A group of neighbours in depth has a scale and a zero: (q - 8) * scale + zero.
enum : uint32_t { kInt4Block = 32 };

struct Int4Params {
  uint32_t rows, columns, depth;
  uint32_t group;           // a multiple of the block, of which the depth is a multiple
  int64_t a_row, a_column;  // strides of the other factor
  uint32_t wide_a, team;    // as in MatmulParams
};
