#pragma once

#include "lib/shared.h"

// Rows of pairs: x counts the pairs of a row, y and z the rows (lib/index.h). Strides are in elements; operand 0 is the
// output, 1 the input, 2 and 3 are cos and sin. The second element of a pair is `second` elements after the first.
struct RotaryParams {
  uint32_t size[4];
  int64_t stride[4][4];
  int64_t second;
  int64_t cos_second;             // offset from the cosine of the first element to that of the second; 0: shared
  int64_t sin_first, sin_second;  // offsets of the sines that the first and second outputs use
  float sign;                     // -1 for the backward, which rotates by the opposite angle
};
