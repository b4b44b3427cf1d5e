// Shared by random launchers: advances the generator's state and launches over chunks of elements.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "ops/op.h"
#include "random/params.h"

namespace mpsx::ops {

constexpr uint64_t random_chunks(uint64_t numel, uint64_t per_chunk = kRandomChunk) {
  return (numel + per_chunk - 1) / per_chunk;
}

// Parameters for `numel` elements; reserves the Philox blocks of all chunks in the generator.
RandomParams random_params(const std::optional<at::Generator>& generator, uint64_t numel,
                           uint64_t per_chunk = kRandomChunk);

// The bound that a 32-bit word is at most with probability p, for 0 < p <= 1.
uint32_t bernoulli_bound(double p);

// Launches over the chunks of params.numel elements, with a work hint, since a draw costs several additions.
Launch& over_chunks(Launch& launch, const RandomParams& params, uint64_t per_chunk = kRandomChunk);

}  // namespace mpsx::ops
