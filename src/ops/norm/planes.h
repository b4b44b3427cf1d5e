// How statistics of a plane are cut into chunks, a threadgroup each.
#pragma once

#include <algorithm>
#include <bit>

#include "norm/batch_norm_params.h"
#include "ops/rows.h"

namespace mpsx::ops {

// Elements of one partial result, which threads hold, 32 each: they stay in registers, or in the first cache. Planes of
// few elements share a threadgroup, a team within a SIMD group each.
constexpr uint32_t kChunk = 8192, kChunkThreads = 256, kSharedPlane = 1024, kEach = kChunk / kChunkThreads;

struct PlanePieces {
  uint32_t count, size;  // of a plane
  uint32_t threads, team, planes;  // of a chunk
  explicit PlanePieces(uint64_t plane) {
    const uint64_t wanted = std::max<uint64_t>(1, ceil_div(plane, kChunk));
    size = uint32_t(ceil_div(ceil_div(plane, wanted), 16) * 16);  // each begins as a plane does
    count = uint32_t(ceil_div(plane, size));
    const bool shared = plane <= kSharedPlane;
    team = uint32_t(shared ? std::bit_ceil(ceil_div(plane, kEach)) : ceil_div(size, kSharedPlane) * 32);
    threads = shared ? kChunkThreads : team;
    planes = threads / team;
  }
};

}  // namespace mpsx::ops
