// Parameters of complex_products.metal, shared with launchers.
#pragma once

#include "lib/types.h"

// Products of `size` numbers along each of `lines` rows or columns per plane. Strides: `pitch` between rows, `step`
// between elements of a row, `plane` between planes.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};
