// Partitions a plane into chunks, each processed by one threadgroup, to compute its statistics.
#pragma once

#include <algorithm>
#include <bit>

#include "norm/batch_norm_params.h"
#include "ops/rows.h"

namespace mpsx::ops {

// Elements per partial result. Each thread holds 32 of them in registers (on a CPU, in the L1 cache). Several short
// planes share a threadgroup. Each of them is processed by one row group within a SIMD group.
constexpr uint32_t kChunk = 8192, kChunkThreads = 256, kSharedPlane = 1024, kEach = kChunk / kChunkThreads;

struct PlanePieces {
  uint32_t count, size;                   // number of pieces per plane, and elements per piece
  uint32_t threads, row_threads, planes;  // threads per threadgroup, threads per plane, planes per threadgroup
  explicit PlanePieces(uint64_t plane) {
    const uint64_t wanted = std::max<uint64_t>(1, ceil_div(plane, kChunk));
    size = uint32_t(ceil_div(ceil_div(plane, wanted), 16) * 16);  // keeps the plane's alignment
    count = uint32_t(ceil_div(plane, size));
    const bool shared = plane <= kSharedPlane;
    row_threads = uint32_t(shared ? std::bit_ceil(ceil_div(plane, kEach)) : ceil_div(size, kSharedPlane) * 32);
    threads = shared ? kChunkThreads : row_threads;
    planes = threads / row_threads;
  }
};

}  // namespace mpsx::ops
