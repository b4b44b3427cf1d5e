// Dropout of attention probabilities.
#pragma once

#include "attention/attention_math.h"
#include "lib/random.h"
#include "lib/threadgroup.h"

// The state of the random number generator. It is in device memory because each replay of a recorded forward pass
// stores a new one, which the recorded backward pass reads. Without dropout, the pointers are null.
struct DropoutState {
  device const ulong *seed, *offset;
};
// Returns the random numbers that decide which scores to drop, one for each of the keys 4 * block to 4 * block + 3.
// The backward pass recomputes them instead of reading a stored mask.
inline PhiloxBlock dropout_bits(uint query, uint block, AttentionHead h, DropoutState random,
                                constant AttentionParams& p) {
  const ulong row = (ulong(h.batch) * p.q_heads + h.head) * p.q_len + query;
  return philox(*random.seed, *random.offset + row * ((p.kv_len + 3) / 4) + block);
}
// Returns 0 for a probability that dropout drops, and 1 / (1 - p) for the others.
inline float dropout_scale(uint query, uint key, AttentionHead h, DropoutState random, constant AttentionParams& p) {
  const PhiloxBlock r = dropout_bits(query, key / 4, h, random, p);
  const uint i = key % 4, word = i < 2 ? (i == 0 ? r.x : r.y) : (i == 2 ? r.z : r.w);
  return word <= p.keep_bound ? p.keep_scale : 0.0f;
}

// The probabilities of a tile that dropout keeps, in threadgroup memory: one bit each, in words of 32 keys. The lanes
// share the random numbers, because a block of four numbers is for elements of two or four lanes.
template <typename Tiles, bool ROWS_ARE_QUERIES>
struct KeptScores {
  enum : uint {
    queries = ROWS_ARE_QUERIES ? Tiles::rows : Tiles::columns,
    words = (ROWS_ARE_QUERIES ? Tiles::columns : Tiles::rows) / 32,  // per query; the first words of all come first
    size = queries * words,
  };
  static METAL_FUNC void fill(threadgroup uint* kept, uint row, uint column, AttentionHead h, DropoutState random,
                              constant AttentionParams& p, GroupThread g) {
    enum : uint { kBlocks = 4 };  // Philox has a long chain of dependent operations, so interleave several.
    const uint query = ROWS_ARE_QUERIES ? row : column, block = (ROWS_ARE_QUERIES ? column : row) / 4;
    for (uint i = g.index; i < size; i += g.count) {
      uint word = 0;
      for (uint first = 0; first < 8; first += kBlocks) {
        uint bits = 0;
        MPSX_UNROLL
        for (uint k = 0; k < kBlocks; ++k) {
          const PhiloxBlock r = dropout_bits(query + i % queries, block + i / queries * 8 + first + k, h, random, p);
          const uint b = p.keep_bound;
          bits |= (uint(r.x <= b) | uint(r.y <= b) << 1 | uint(r.z <= b) << 2 | uint(r.w <= b) << 3) << 4 * k;
        }
        word |= bits << 4 * first;
      }
      kept[i] = word;
    }
  }
  // Multiplies S by the factors of dropout.
  template <typename Matrix>
  static METAL_FUNC void apply(thread Matrix& S, threadgroup const uint* kept, constant AttentionParams& p) {
    MPSX_UNROLL
    for (ushort i = 0; i < S.get_capacity(); ++i) {
      const auto at = S.get_multidimensional_index(i);
      const uint query = uint(at[ROWS_ARE_QUERIES ? 1 : 0]), key = uint(at[ROWS_ARE_QUERIES ? 0 : 1]);
      S[i] *= kept[key / 32 * queries + query] >> key % 32 & 1 ? p.keep_scale : 0.0f;
    }
  }
};
