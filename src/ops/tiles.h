// Launching kernels that compute a matrix tile by tile (metal/lib/tile_product.h).
#pragma once

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

// Whether kernels may read a factor 16 bytes at a time, along its lines or across them.
inline bool reads_wide(const void* data, size_t element_size, int64_t line_stride, int64_t depth_stride,
                       int64_t batch_stride = 0) {
  const int64_t size = int64_t(element_size), apart = depth_stride == 1 ? line_stride : depth_stride;
  return (depth_stride == 1 || line_stride == 1) && reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
         apart * size % 16 == 0 && batch_stride * size % 16 == 0;
}

}  // namespace mpsx::ops
