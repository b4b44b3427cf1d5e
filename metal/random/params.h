#pragma once

#include "lib/types.h"

// One threadgroup fills kRandomChunk elements from kRandomBlocks Philox blocks of four words. Word k of block j goes
// to element k * kRandomBlocks + j of the chunk, so stores are contiguous however blocks are assigned to threads.
enum : uint32_t { kRandomBlocks = 256, kRandomChunk = 4 * kRandomBlocks };

struct RandomParams {
  uint64_t seed;
  uint64_t offset;  // the first Philox block
  uint64_t numel;
  uint64_t range;  // integers: the number of values; 0 stands for 2^64
  int64_t base;  // integers: the smallest value
  float a, b, c;   // the distribution's parameters, see fill.metal
  uint32_t bound;  // Bernoulli: true for words up to this one
  uint32_t vectorized, unused;  // vectorized: dropout's operands are aligned to vectors (lib/vec.h)
};
static_assert(sizeof(RandomParams) == 64, "kernels and launchers share this layout");

// Sampling with a variable number of random numbers. Element i uses Philox blocks (offset + i, 1), (offset + i, 2),
// …; fills use (offset + i, 0).
struct SampleParams {
  uint64_t seed;
  uint64_t offset;
};

// Rows of weights, in at most kMultinomialBlocks blocks of `block` columns. Sample s of row r uses Philox block
// offset + r * samples + s.
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
  uint32_t low_bits, high_bits;  // bits of the two halves of the numbers that the Feistel network permutes
};
