// Parameters of complex_products.metal, shared with launchers.
#pragma once

#include "lib/types.h"

// prod and cumprod of the rows (or columns) of each plane. A plane has `lines` rows with `size` elements. The strides
// are `pitch` between rows, `step` between the elements of a row, and `plane` between planes.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};
