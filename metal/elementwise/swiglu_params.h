#pragma once

#include "lib/types.h"

// A dispatch over up to four dimensions, innermost first. Strides are in elements. Operands: gradients of x and gate,
// output gradient, x, gate.
struct SwigluParams {
  uint32_t size[4];
  int64_t stride[5][4];
  uint32_t vectorized, unused;  // as in StridedParams
};
