// Parameters of complex_products.metal, shared with launchers.
#pragma once

#include "lib/types.h"

// prod and cumprod along the rows (or columns) of each plane: `lines` rows of `size` elements. Strides: `pitch` between
// rows, `step` between elements of a row, `plane` between planes.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};
