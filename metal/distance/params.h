#pragma once

#include "lib/shared.h"

// Elements of a row that a CPU thread of the gradient handles; a GPU's handles one.
enum : int32_t { kDistanceTile = 64 };

// Distances between `rows` points and `others`, of `size` numbers each.
struct DistanceParams {
  uint32_t rows, others, size;
  float p;
};
