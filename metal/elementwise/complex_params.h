// Parameters of complex_products.metal, shared with launchers.
#pragma once

#include "lib/shared.h"

// Products of `size` numbers for each of `lines` rows or columns per plane, with the strides between rows, between
// elements of a row, and between planes.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};
