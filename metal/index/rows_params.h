#pragma once

#include "lib/types.h"

// Parameters for merging pairs of sorted runs. A run has `run` rows of `width` elements.
struct RowOrderParams {
  uint32_t count, width, run;
};
