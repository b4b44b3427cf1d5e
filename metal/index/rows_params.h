#pragma once

#include "lib/shared.h"

// Rows of `width` elements, in sorted runs of `run` rows that become runs of twice as many.
struct RowOrderParams {
  uint32_t count, width, run;
};
