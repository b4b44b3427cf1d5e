// Partitions planes into chunks, to compute statistics with one threadgroup per chunk.
#pragma once

#include <algorithm>
#include <bit>

#include "norm/batch_norm_params.h"
#include "ops/rows.h"

namespace mpsx::ops {

// Number of elements per partial result. Each thread keeps 32 of them in registers (on a CPU, in the L1 cache). Several
// short planes share one threadgroup. In this case, a row group within a SIMD group processes each plane.
constexpr uint32_t kChunk = 8192, kChunkThreads = 256, kSharedPlane = 1024, kEach = kChunk / kChunkThreads;

struct PlanePieces {
  uint32_t count, size;                   // number of pieces per plane; elements per piece
  uint32_t threads, row_threads, planes;  // threads per threadgroup, threads per plane, planes per threadgroup
  explicit PlanePieces(uint64_t plane) {
    const uint64_t wanted = std::max<uint64_t>(1, ceil_div(plane, kChunk));
    size = uint32_t(ceil_div(ceil_div(plane, wanted), 16) * 16);  // preserves the alignment of the plane
    count = uint32_t(ceil_div(plane, size));
    const bool shared = plane <= kSharedPlane;
    row_threads = uint32_t(shared ? std::bit_ceil(ceil_div(plane, kEach)) : ceil_div(size, kSharedPlane) * 32);
    threads = shared ? kChunkThreads : row_threads;
    planes = threads / row_threads;
  }
};

}  // namespace mpsx::ops
