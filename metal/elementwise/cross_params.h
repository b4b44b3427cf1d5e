#pragma once

#include "lib/shared.h"

// Vectors of three components with stride `step`; `pitch` is the stride between vectors of a row, `line` the one
// between rows.
struct CrossParams {
  int64_t step, pitch, line;
};
