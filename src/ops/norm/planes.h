// The partition of a plane into chunks, one threadgroup each, for its statistics.
#pragma once

#include <algorithm>
#include <bit>

#include "norm/batch_norm_params.h"
#include "ops/rows.h"

namespace mpsx::ops {

// Elements of one partial result, of which a thread holds 32 in registers (on a CPU, in the first-level cache). Short
// planes share a threadgroup, one row group within a SIMD group per plane.
constexpr uint32_t kChunk = 8192, kChunkThreads = 256, kSharedPlane = 1024, kEach = kChunk / kChunkThreads;

struct PlanePieces {
  uint32_t count, size;  // pieces of a plane, and their elements
  uint32_t threads, row_threads, planes;  // per threadgroup, per plane; planes per threadgroup
  explicit PlanePieces(uint64_t plane) {
    const uint64_t wanted = std::max<uint64_t>(1, ceil_div(plane, kChunk));
    size = uint32_t(ceil_div(ceil_div(plane, wanted), 16) * 16);  // keeps the alignment of a plane
    count = uint32_t(ceil_div(plane, size));
    const bool shared = plane <= kSharedPlane;
    row_threads = uint32_t(shared ? std::bit_ceil(ceil_div(plane, kEach)) : ceil_div(size, kSharedPlane) * 32);
    threads = shared ? kChunkThreads : row_threads;
    planes = threads / row_threads;
  }
};

}  // namespace mpsx::ops
