#pragma once

#include "lib/shared.h"

// torch.nn.functional.grid_sample, with PyTorch's numbers.
enum : int32_t { kGridLinear, kGridNearest, kGridCubic };
enum : int32_t { kGridZeros, kGridBorder, kGridReflection };

enum : uint32_t { kGridChannels = 4 };  // that a thread adds up for in the gradient of the input

// Elements of a plane of the input, along each dimension from the innermost on, and of one of the result.
struct GridSamplerParams {
  int32_t mode, padding, align_corners;
  int32_t size[3];
  uint32_t pixels, plane;
  uint32_t channels;
};
