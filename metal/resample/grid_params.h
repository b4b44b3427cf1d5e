#pragma once

#include "lib/shared.h"

// Pixels that a CPU thread of grid_sampler handles; a GPU's handles one.
enum : int32_t { kGridTile = 64 };

// torch.nn.functional.grid_sample, with PyTorch's numbers.
enum : int32_t { kGridLinear, kGridNearest, kGridCubic };
enum : int32_t { kGridZeros, kGridBorder, kGridReflection };

// Elements of a plane of the input, along each dimension from the innermost on, and of one of the result.
struct GridSamplerParams {
  int32_t mode, padding, align_corners;
  int32_t size[3];
  uint32_t pixels, plane;
  uint32_t channels;
  uint32_t block;  // channels that a thread adds up for in the gradient of the input
};
