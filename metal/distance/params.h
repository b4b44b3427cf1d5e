#pragma once

#include "lib/shared.h"

// Elements of a row of the gradient, or pairs of points, that a CPU thread handles; a GPU's handles one.
enum : int32_t { kDistanceTile = 64 };
// On a CPU, so many second points at once where there are as many, of at most so many coordinates.
enum : int32_t { kPointsAbreast = 32, kFewCoordinates = 64 };

// Distances between `rows` points and `others`, of `size` numbers each.
struct DistanceParams {
  uint32_t rows, others, size;
  float p;
  uint32_t pairs;  // gradient: distances are those of pairs of the same points, each once (pdist)
};
