#pragma once

#include "lib/types.h"

// Interpolation and padding modes of torch.nn.functional.grid_sample, numbered as in PyTorch.
enum : int32_t { kGridLinear, kGridNearest, kGridCubic };
enum : int32_t { kGridZeros, kGridBorder, kGridReflection };

enum : uint32_t { kGridChannels = 4 };  // channels per thread in the kernel for the input gradient

// Sizes of an input plane, innermost dimension first. `pixels` is the number of elements in an output plane.
struct GridSamplerParams {
  int32_t mode, padding, align_corners;
  int32_t size[3];
  uint32_t pixels, plane;
  uint32_t channels;
};
