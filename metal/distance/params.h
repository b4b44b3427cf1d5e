#pragma once

#include "lib/types.h"

enum : uint32_t { kDistanceTile = 8 };  // gradient coordinates that each thread computes

// Distances between `rows` points and `others` points, with `size` coordinates each.
struct DistanceParams {
  uint32_t rows, others, size;
  float p;
  uint32_t pairs;  // in the gradient kernel, whether all points are from a single set (pdist)
};
