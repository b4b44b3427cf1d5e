#pragma once

#include "lib/types.h"

// Merges sorted runs of `run` rows of `width` elements into runs of twice the length.
struct RowOrderParams {
  uint32_t count, width, run;
};
