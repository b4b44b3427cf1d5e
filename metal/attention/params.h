#pragma once

#include "lib/types.h"

// Grid x indexes the pairs within a row, and y and z index the rows (see lib/index.h). Strides are in elements.
// Operands: 0 is the output, 1 the input, 2 cos, 3 sin. `second` is the offset from the first to the second element of
// a pair.
struct RotaryParams {
  uint32_t size[4];
  int64_t stride[4][4];
  int64_t second;
  int64_t cos_second;             // offset from the first element's cosine to the second's; 0 if they share one
  int64_t sin_first, sin_second;  // offsets of the sines of the first and second elements
  float sign;                     // -1 in the backward pass, which rotates in the opposite direction
};
