#pragma once

#include "lib/shared.h"

// Rows of pairs: x counts the pairs of a row, y and z the rows (lib/index.h). Strides in elements; operand 0 is the
// output, 1 the input, 2 and 3 the cosines and sines. A pair's second element lies `second` elements after its first.
struct RotaryParams {
  uint32_t size[4];
  int64_t stride[4][4];
  int64_t second;
  int64_t cos_second;            // from the cosine of the first element to that of the second; 0: they share it
  int64_t sin_first, sin_second;  // where the sines lie that the first and second result use
  float sign;                    // -1 rotates backwards
};
