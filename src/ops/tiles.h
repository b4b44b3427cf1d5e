// Launching kernels that compute a matrix tile by tile (metal/lib/tile_product.h).
#pragma once

#include <algorithm>

#include "lib/tile_params.h"
#include "ops/op.h"

namespace mpsx::ops {

// The grid of `batch` products, of tiles of 64 x 64 or of LARGE ones.
inline Launch& over_tiles(Launch& launch, uint64_t rows, uint64_t columns, uint64_t batch, uint64_t depth,
                          bool large = false) {
  const uint32_t down = large ? kLargeTile : kTileRows, across = large ? kLargeTile : kTileColumns;
  return launch
      .groups({uint32_t(ceil_div(columns, across)), uint32_t(ceil_div(rows, down)), uint32_t(batch)},
              large ? kLargeTileThreads : kTileThreads, true)
      .work(down * across * (1 + depth / 16));  // a product costs less than an element of plain work
}

inline uint64_t tiles_of(uint64_t rows, uint64_t columns, uint64_t batch, uint32_t size) {
  return ceil_div(rows, size) * ceil_div(columns, size) * batch;
}
inline uint64_t tile_threads(uint64_t rows, uint64_t columns, uint64_t batch) {
  return tiles_of(rows, columns, batch, kTileRows) * kTileThreads;
}
// Whether large tiles, which kernels of 16-bit elements have, keep the device busy.
inline bool takes_large_tiles(uint64_t rows, uint64_t columns, uint64_t batch, size_t element_size) {
  return element_size == 2 && std::min(rows, columns) >= kLargeTile &&
         tiles_of(rows, columns, batch, kLargeTile) * kLargeTileThreads * 2 >= uint64_t(runtime::threads_to_fill());
}

// The parts that the depth is cut into where too few threads would keep the device busy, and a part's depth, which is
// at least `least`.
struct Split {
  uint32_t parts, depth;
};
inline Split split_of(uint64_t threads, uint32_t depth, uint32_t least = 256) {
  constexpr uint32_t kMost = 32, kSlices = kTileBytes;  // whole slices of every type
  const uint64_t wanted = uint64_t(runtime::threads_to_fill()) / 2 / threads;
  const uint64_t parts = std::min<uint64_t>(wanted, std::min(depth / least, kMost));
  if (parts <= 1) return {1, depth};
  const uint32_t part = uint32_t(ceil_div(ceil_div(depth, parts), kSlices) * kSlices);
  return {uint32_t(ceil_div(depth, part)), part};
}

// So many elements of t's type, rounded up to whole runs of 16 bytes.
inline int64_t in_whole_runs(int64_t elements, const Tensor& t) {
  const int64_t run = 16 / int64_t(t.element_size());
  return ceil_div(elements, run) * run;
}

// Whether kernels may read a factor 16 bytes at a time, along its lines or across them.
inline bool reads_wide(const void* data, size_t element_size, int64_t line_stride, int64_t depth_stride,
                       int64_t batch_stride = 0) {
  const int64_t size = int64_t(element_size), apart = depth_stride == 1 ? line_stride : depth_stride;
  return (depth_stride == 1 || line_stride == 1) && reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
         apart * size % 16 == 0 && batch_stride * size % 16 == 0;
}

}  // namespace mpsx::ops
