// The part of the output that each threadgroup of a random-number kernel fills.
#pragma once

#include "lib/random.h"
#include "random/params.h"

// The chunk of elements that a threadgroup fills.
struct RandomChunk {
  ulong start;  // index of the first element
  ulong block;  // index of the first Philox block
  ulong left;   // number of elements from `start` to the end of the tensor
};

inline RandomChunk random_chunk(constant RandomParams& p, uint group) {
  const ulong start = ulong(group) * kRandomChunk;
  return {start, p.offset + ulong(group) * kRandomBlocks, p.numel - start};
}

// The four values generated from one Philox block.
template <typename T>
struct Quad {
  T x, y, z, w;
};

// Stores a block's four values at elements j, j + kRandomBlocks, j + 2 * kRandomBlocks and j + 3 * kRandomBlocks of a
// chunk.
template <typename T, typename U>
inline void store(device T* out, uint j, Quad<U> v) {
  out[j] = T(v.x);
  out[j + kRandomBlocks] = T(v.y);
  out[j + 2 * kRandomBlocks] = T(v.z);
  out[j + 3 * kRandomBlocks] = T(v.w);
}
template <typename T, typename U>
inline void store(device T* out, uint j, Quad<U> v, uint left) {
  if (j < left) out[j] = T(v.x);
  if (j + kRandomBlocks < left) out[j + kRandomBlocks] = T(v.y);
  if (j + 2 * kRandomBlocks < left) out[j + 2 * kRandomBlocks] = T(v.z);
  if (j + 3 * kRandomBlocks < left) out[j + 3 * kRandomBlocks] = T(v.w);
}
