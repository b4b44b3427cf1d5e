#pragma once

#include "lib/types.h"

enum : uint32_t { kDistanceTile = 8 };  // number of coordinates of the gradient that a thread computes

// Distances between `rows` points and `others` points. Every point has `size` coordinates.
struct DistanceParams {
  uint32_t rows, others, size;
  float p;
  uint32_t pairs;  // for the gradient kernel: whether all points are from one set (pdist)
};
