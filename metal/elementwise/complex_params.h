// Parameters of complex_products.metal, for both sides.
#pragma once

#include "lib/shared.h"

// Products of `size` numbers each, for planes of `lines` lines: elements from a line to the next, from a number of a
// line to the next, and from a plane to the next.
struct ComplexProductParams {
  uint32_t size, lines, pitch, step;
  uint64_t plane;
};
