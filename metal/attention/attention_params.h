#pragma once

#include "lib/types.h"

enum : uint32_t {
  kMaxHeadDim = 256,
  kAttentionThreads = 128,  // four SIMD groups
};
// The SIMD groups per threadgroup of attention_tiles.h. Each computes 16 rows of S (of S^T for dK and dV). For large
// heads, twice as many share the tiles of the other operands, because loading them from L2 limits the speed.
enum : uint32_t { kMaxTileRows = 128 };
inline constexpr uint32_t attention_tile_simdgroups(bool backward, uint32_t head_dim) {
  return backward && head_dim == 128 ? 8 : 4;
}
// Masks are classified in tiles of this many queries and keys (attention_mask.h). No attention kernel has larger tiles.
enum : uint32_t { kMaskTile = 128 };
// Rows per SIMD group. The registers that the accumulators need limit this number.
inline constexpr uint32_t attention_rows(uint32_t head_dim) { return head_dim <= 128 ? 16 : 8; }

// Strides of a [batch, heads, length, head_dim] tensor, in elements. head_dim is contiguous. Inputs are 16-byte
// aligned.
struct AttentionStrides {
  int64_t batch, head, row;
};

struct AttentionParams {
  AttentionStrides Q, K, V, O, dO, dQK, dV;                    // dQK: dQ or dK, whichever the pass computes
  int64_t mask_batch, mask_head, mask_row;                     // keys are contiguous
  uint32_t mask_tiles_batch, mask_tiles_head, mask_tiles_row;  // strides of the classified tiles of a mask
  uint32_t q_len, kv_len, head_dim, v_head_dim;
  uint32_t q_heads, gqa_factor;  // gqa_factor: query heads per KV head
  uint32_t causal, has_dropout, keep_bound;
  uint32_t has_mask, has_mask_tiles;
  uint32_t mask_is_float, mask_is_aligned;  // float32, not the element type of Q; rows start at multiples of 16 bytes
  float scale, keep_scale;
};

// A block of S in device memory: `rows` queries of several heads, and all keys up to `columns`.
struct ScoreBlock {
  uint32_t kv_head;     // of the first head, counted over the batch
  uint32_t query_head;  // among the query heads that share a KV head
  uint32_t query, rows, columns;
  uint32_t stride;  // of rows, a multiple of 4 elements
};
// The tile of S that a threadgroup of the backward pass computes, with one SIMD group per 16 rows. With more columns,
// P and dP need more registers than a thread has.
struct ScoreTile {
  enum : uint32_t { rows = 64, columns = 64 };
};
