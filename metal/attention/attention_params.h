#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kAttentionSize = 256,  // the largest head
  kAttentionThreads = 128,  // four SIMD groups, each with rows of its own
};
// Rows of a SIMD group, by the elements of a head's row: as many as registers hold sums of.
inline constexpr uint32_t attention_rows(uint32_t size) { return size <= 128 ? 16 : 8; }

// Of [batch, heads, length, size], where elements of a head lie together, in aligned runs of 16 bytes in what is read.
struct AttentionStrides {
  int64_t batch, head, row;
};

struct AttentionParams {
  AttentionStrides query, key, value, out, grad, result, of_value;  // the last two: gradients
  int64_t mask_batch, mask_head, mask_row, mask_column;
  uint64_t seed, first_block;  // dropout: four neighbours of a row share a block of random words
  uint32_t queries, keys, size, value_size;
  uint32_t heads, shared;  // heads of the query; how many of them have one key and value
  uint32_t causal, has_mask, has_dropout, bound;
  float scale, kept_scale;
};
