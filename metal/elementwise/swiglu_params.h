#pragma once

#include "lib/shared.h"

// A dispatch over up to four dimensions, innermost first; strides are in elements. Operands: the gradients of x and
// gate, then the incoming gradient, x and gate.
struct SwigluParams {
  uint32_t size[4];
  int64_t stride[5][4];
  uint32_t packed, unused;  // as in StridedParams
};
