#pragma once

#include "lib/types.h"

// Strides of 3-component vectors: `step` between components, `pitch` between the vectors of a row, `line` between rows.
struct CrossParams {
  int64_t step, pitch, line;
};
