#pragma once

#include "lib/shared.h"

// Vectors of three components, `step` apart; neighbours of a line are `pitch` apart, lines `line`.
struct CrossParams {
  int64_t step, pitch, line;
};
