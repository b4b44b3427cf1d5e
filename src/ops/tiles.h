// Launching kernels that compute a matrix tile by tile (metal/lib/tile_product.h).
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

// Whether a threadgroup is one thread, which owns a tile of the size that it is told.
bool tiles_are_wide();

struct TileSize {
  uint32_t rows, columns;
};
// For `batch` results of rows x columns.
TileSize tile_size(uint64_t rows, uint64_t columns, uint64_t batch);

// The grid and the threadgroup memory of a kernel whose last threadgroup argument the tiles are in.
Launch& over_tiles(Launch& launch, TileSize tile, uint64_t rows, uint64_t columns, uint64_t batch, uint64_t depth);

}  // namespace mpsx::ops
