// Pixels of a grid (ConvGrid), which are the rows of the tensor tier's GEMMs.
#pragma once

#include "conv/gemm_params.h"
#include "conv/im2col.h"

struct ConvPixel {
  uint image, index[3];
};
inline ConvPixel pixel_of(uint n, ConvGrid grid) {
  const uint rows = divide(n, grid.by[2]), planes = divide(rows, grid.by[1]), image = divide(planes, grid.by[0]);
  return {image, {planes - image * grid.pitch[0], rows - planes * grid.pitch[1], n - rows * grid.pitch[2]}};
}
