#pragma once

#include "lib/types.h"

// A threadgroup fills kRandomChunk elements from kRandomBlocks Philox blocks with four words each. Word k of block j
// yields element k * kRandomBlocks + j of the chunk. Stores are therefore contiguous, no matter how blocks are assigned
// to threads.
enum : uint32_t { kRandomBlocks = 256, kRandomChunk = 4 * kRandomBlocks };

struct RandomParams {
  uint64_t seed;
  uint64_t offset;  // index of the first Philox block
  uint64_t numel;
  uint64_t range;               // for integers: number of possible values; 0 means 2^64
  int64_t base;                 // for integers: smallest value
  float a, b, c;                // parameters of the distribution; see fill.metal
  uint32_t bound;               // a Bernoulli sample is true if its random word is at most `bound`
  uint32_t vectorized, unused;  // whether dropout's operands are aligned for vector access (lib/vec.h)
};
static_assert(sizeof(RandomParams) == 64, "kernels and launchers share this layout");

// Samplers that need a variable number of random numbers per element. Element i uses Philox blocks (offset + i, 1),
// (offset + i, 2), and so on. Fills use blocks (offset + i, 0), so the two do not overlap.
struct SampleParams {
  uint64_t seed;
  uint64_t offset;
};

// Multinomial sampling. Each row of weights is divided into at most kMultinomialBlocks blocks of `block` columns.
// Sample s of row r uses Philox block offset + r * samples + s.
enum : uint32_t { kMultinomialBlocks = 256 };
struct MultinomialParams {
  uint64_t seed;
  uint64_t offset;
  uint32_t columns, samples;
  uint32_t block, blocks;
};

enum : uint32_t { kFeistelRounds = 24 };

struct PermutationParams {
  uint64_t seed;
  uint64_t offset;
  uint64_t numel;
  uint32_t low_bits, high_bits;  // numbers of bits in the two halves that the Feistel network permutes
};
