#include "ops/tiles.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "lib/tile_params.h"

namespace mpsx::ops {
namespace {

uint64_t divided(uint64_t n, uint64_t by) { return (n + by - 1) / by; }
uint32_t padded(uint64_t n, uint32_t step, uint32_t most) {
  return uint32_t(std::min<uint64_t>(divided(std::max<uint64_t>(n, 1), step) * step, most));
}

}  // namespace

bool tiles_are_wide() { return runtime::driver().info().vector_bytes == 0; }

TileSize tile_size(uint64_t rows, uint64_t columns, uint64_t batch) {
  if (!tiles_are_wide()) return {kTileRows, kTileColumns};
  TileSize t{padded(rows, kWideRowStep, kWideRows), padded(columns, kWideColumnStep, kWideColumns)};
  // Enough tiles that CPU cores finish together.
  const uint64_t wanted = 4 * uint64_t(at::get_num_threads());
  const auto too_few = [&] { return divided(rows, t.rows) * divided(columns, t.columns) * batch < wanted; };
  if (wanted == 4) return t;
  while (too_few() && t.columns > 64) t.columns = padded(t.columns / 2, kWideColumnStep, kWideColumns);
  while (too_few() && t.rows > 32) t.rows = padded(t.rows / 2, kWideRowStep, kWideRows);
  return t;
}

Launch& over_tiles(Launch& launch, TileSize tile, uint64_t rows, uint64_t columns, uint64_t batch, uint64_t depth) {
  const uint64_t down = divided(rows, tile.rows), across = divided(columns, tile.columns);
  const driver::Size grid{uint32_t(across), uint32_t(down), uint32_t(batch)};
  // A product is worth less than the element that a unit of work is.
  launch.work(uint64_t(tile.rows) * tile.columns * (1 + depth / 16));
  if (!tiles_are_wide()) return launch.threadgroup_memory(kTileFloats * sizeof(float)).groups(grid, kTileThreads, true);
  const size_t stride = tile.columns + kWidePad;
  const size_t floats = tile.rows * stride + tile.rows * size_t(kWideDepth) + kWideDepth * stride;
  return launch.threadgroup_memory(floats * sizeof(float)).groups(grid, 1);
}

}  // namespace mpsx::ops
