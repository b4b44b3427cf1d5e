#pragma once

#include "lib/shared.h"

enum : uint32_t { kGemvColumns = 256 };  // output columns per threadgroup of gemv_t
enum : uint32_t { kActivationNone, kActivationRelu, kActivationGelu, kActivationGeluTanh, kActivationSilu };

// Strides of one operand, in elements.
struct MatmulStrides {
  int64_t row, column, batch;
};

// out = activation(alpha * a b * scale + beta * c), batched.
struct MatmulParams {
  MatmulStrides a, b, c, out;  // a: M x K, b: K x N
  int64_t scale;               // stride of the per-column scales
  int64_t alpha_int, beta_int;
  float alpha, beta;
  uint32_t M, N, K;
  uint32_t activation, has_c, has_scale;
  uint32_t vectorize_a, vectorize_b;  // whether an operand's contiguous 16-byte vectors are aligned
  uint32_t split_k, k_per_split;      // split-K: the number of splits, and the K extent of each
  uint32_t team, unused;              // gemv: threads that share an output element (lib/collective.h)
};

// 4-bit weights, two per byte: a row consists of blocks along K, whose byte i holds element i in the low half and
// element i + kInt4Block / 2 in the high half. Each group along K has a scale and a zero: (q - 8) * scale + zero.
enum : uint32_t { kInt4Block = 32 };

struct Int4Params {
  uint32_t M, N, K;
  uint32_t group;              // a multiple of the block size; K is a multiple of it
  int64_t a_row, a_column;     // strides of A
  uint32_t vectorize_a, team;  // as in MatmulParams
};
