// Launching kernels that compute a matrix tile by tile (metal/lib/tile_product.h).
#pragma once

#include "lib/tile_params.h"
#include "ops/op.h"

namespace mpsx::ops {

// The grid and the threadgroup memory of `batch` products, whose tiles are in the kernel's last threadgroup argument.
inline Launch& over_tiles(Launch& launch, uint64_t rows, uint64_t columns, uint64_t batch, uint64_t depth) {
  return launch.threadgroup_memory(kTileFloats * sizeof(float))
      .groups({uint32_t(ceil_div(columns, kTileColumns)), uint32_t(ceil_div(rows, kTileRows)), uint32_t(batch)},
              kTileThreads, true)
      .work(kTileRows * kTileColumns * (1 + depth / 16));  // a product costs less than an element of plain work
}

}  // namespace mpsx::ops
