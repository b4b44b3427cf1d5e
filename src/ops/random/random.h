// Helpers for random launchers: advance the generator's state and launch over chunks of elements.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "ops/op.h"
#include "random/params.h"

namespace mpsx::ops {

constexpr uint64_t random_chunks(uint64_t numel, uint64_t per_chunk = kRandomChunk) {
  return (numel + per_chunk - 1) / per_chunk;
}

// Returns parameters for `numel` elements and reserves the Philox blocks of all chunks.
RandomParams random_params(const std::optional<at::Generator>& generator, uint64_t numel,
                           uint64_t per_chunk = kRandomChunk);

// Returns the bound b for which a uniform random 32-bit word is at most b with probability p, for 0 < p <= 1.
uint32_t bernoulli_bound(double p);

// Launches over the chunks of params.numel elements. Sets a work hint, because a draw costs several additions' time.
Launch& over_chunks(Launch& launch, const RandomParams& params, uint64_t per_chunk = kRandomChunk);

}  // namespace mpsx::ops
