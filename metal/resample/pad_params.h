#pragma once

#include "lib/shared.h"

// What a CPU thread handles: rows, and neighbouring numbers of each.
enum : int32_t { kPadRows = 16, kPadRun = 4096 };

// Dimensions innermost first, each element of which is `inner` numbers side by side. `before`: elements that precede the
// input's, or, negative, that are left out of them.
struct PadParams {
  int32_t in[3], out[3], before[3];
  int32_t inner;
  uint32_t reflects;  // else the element at the border is repeated
};
