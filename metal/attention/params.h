#pragma once

#include "lib/types.h"

// Grid x indexes the pairs within a row; y and z index the rows (see lib/index.h). Strides are in elements. Operands: 0
// output, 1 input, 2 cos, 3 sin. `second` is the offset from the first element of a pair to the second.
struct RotaryParams {
  uint32_t size[4];
  int64_t stride[4][4];
  int64_t second;
  int64_t cos_second;             // offset from the first element's cosine to the second element's; 0 if they share one
  int64_t sin_first, sin_second;  // offsets of the sines for the first and second outputs
  float sign;                     // -1 in the backward pass, which rotates in the opposite direction
};
