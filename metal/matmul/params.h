#pragma once

#include "lib/types.h"

enum : uint32_t { kGemvColumns = 256 };  // output columns per threadgroup of gemv_t
enum : uint32_t { kGemvRows = 4 };       // output elements per row group of the kernels in gemv_int.metal
enum : uint32_t { kActivationNone, kActivationRelu, kActivationGelu, kActivationGeluTanh, kActivationSilu };

// Strides of an operand, in elements.
struct MatmulStrides {
  int64_t row, column, batch;
};

// Batched matmul: out = activation(alpha * a b * scale + beta * c).
struct MatmulParams {
  MatmulStrides a, b, c, out;  // a: M x K, b: K x N
  int64_t scale;               // stride of the per-column scales
  int64_t alpha_int, beta_int;
  float alpha, beta;
  uint32_t M, N, K;
  uint32_t activation, has_c, has_scale;
  uint32_t vectorize_a, vectorize_b;  // whether the operand's 16-byte vectors are contiguous and aligned
  uint32_t split_k, k_per_split;      // number of K splits, and the K extent of each split
  uint32_t row_threads;               // threads per output element of gemv (see RowGroup in lib/threadgroup.h)
  uint32_t tiles;                     // of all matrices, for matmul_tensor_several
};

// 4-bit weights, stored two per byte. Each row is a sequence of blocks along K. Byte i of a block contains element i in
// its low half and element i + kInt4Block / 2 in its high half. Each quantization group along K has a scale and an
// offset, `zero`. A weight q is dequantized to (q - 8) * scale + zero.
enum : uint32_t { kInt4Block = 32 };
// A threadgroup of the tensor tier's GEMV computes this many rows and columns of the output. It has at most this many
// SIMD groups.
enum : uint32_t { kInt4GemvRows = 8, kInt4GemvColumns = 32, kInt4GemvSimdGroups = 16 };

struct Int4Params {
  uint32_t M, N, K;
  uint32_t group;                     // quantization group size, a multiple of kInt4Block that divides K
  int64_t a_row, a_column;            // strides of A
  uint32_t vectorize_a, row_threads;  // as in MatmulParams
};
