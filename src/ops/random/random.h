// Shared by launchers of random kernels: taking state from a generator, and launching over chunks of elements.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "ops/op.h"
#include "random/params.h"

namespace mpsx::ops {

constexpr uint64_t random_chunks(uint64_t numel, uint64_t per_chunk = kRandomChunk) {
  return (numel + per_chunk - 1) / per_chunk;
}

// Parameters for `numel` elements; takes the Philox blocks of all their chunks from the generator.
RandomParams random_params(const std::optional<at::Generator>& generator, uint64_t numel,
                           uint64_t per_chunk = kRandomChunk);

// A word is at most this with probability p, where 0 < p <= 1.
uint32_t bernoulli_bound(double p);

// Launches over the chunks of params.numel elements. A draw costs several times what an addition does, which the hint
// for splitting between cores says.
Launch& over_chunks(Launch& launch, const RandomParams& params, uint64_t per_chunk = kRandomChunk);

}  // namespace mpsx::ops
