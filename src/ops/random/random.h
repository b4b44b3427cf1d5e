// Helpers for launchers that use random numbers. They advance the generator and launch over chunks of elements.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "ops/op.h"
#include "random/params.h"

namespace mpsx::ops {

constexpr uint64_t random_chunks(uint64_t numel, uint64_t per_chunk = kRandomChunk) {
  return (numel + per_chunk - 1) / per_chunk;
}

// Returns the parameters for `numel` elements, and reserves Philox blocks for all chunks.
RandomParams random_params(const std::optional<at::Generator>& generator, uint64_t numel,
                           uint64_t per_chunk = kRandomChunk);

// Returns b such that a uniform 32-bit random word is at most b with probability p, where 0 < p <= 1.
uint32_t bernoulli_bound(double p);

// Launches over the chunks of params.numel elements. The work hint counts a draw as several additions.
Launch& over_chunks(Launch& launch, const RandomParams& params, uint64_t per_chunk = kRandomChunk);

}  // namespace mpsx::ops
