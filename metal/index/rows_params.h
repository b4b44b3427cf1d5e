#pragma once

#include "lib/types.h"

// Parameters for merging pairs of sorted runs. A run consists of `run` rows with `width` elements each.
struct RowOrderParams {
  uint32_t count, width, run;
};
