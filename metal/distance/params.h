#pragma once

#include "lib/shared.h"

enum : uint32_t { kDistanceTile = 8 };  // neighbouring coordinates of a gradient that a thread handles

// Distances between `rows` points and `others`, of `size` numbers each.
struct DistanceParams {
  uint32_t rows, others, size;
  float p;
  uint32_t pairs;  // gradient: distances are those of pairs of the same points, each once (pdist)
};
