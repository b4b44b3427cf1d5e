#pragma once

#include "lib/shared.h"

// A threadgroup owns a block of rows and goes through blocks of columns, with slices of the head's dimension in
// threadgroup memory: of kAttentionDepth for scores, of kAttentionWidth for sums of values.
enum : uint32_t {
  kAttentionSize = 256,  // the largest head
  kAttentionRows = 16,
  kAttentionColumns = 32,
  kAttentionDepth = 32,
  kAttentionWidth = 64,
  kAttentionFloats = kAttentionRows * (kAttentionSize + 4) + 2 * kAttentionRows * (kAttentionColumns + 4) +
                     kAttentionColumns * (kAttentionWidth + 4) + 4 * kAttentionRows,
};

// Of [batch, heads, length, size], where elements of a head lie together.
struct AttentionStrides {
  int64_t batch, head, row;
};

struct AttentionParams {
  AttentionStrides query, key, value, out, grad, result;  // result: the gradient that is computed
  int64_t mask_batch, mask_head, mask_row, mask_column;
  uint64_t seed, first_block;  // dropout: four neighbours of a row share a block of random words
  uint32_t queries, keys, size, value_size;
  uint32_t heads, shared;  // heads of the query; how many of them have one key and value
  uint32_t causal, has_mask, has_dropout, bound;
  float scale, kept_scale;
};
