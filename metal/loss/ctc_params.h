#pragma once

#include "lib/types.h"

// Connectionist temporal classification. `steps` and `states` (2 * longest target + 1) are the buffers' sizes. A
// table has a row per sequence: input length, target length, target offset, target stride.
struct CtcParams {
  uint32_t batch, classes, steps, states;
  int64_t blank;
  int64_t step_stride, batch_stride, class_stride;  // of the log-probabilities
  uint32_t zero_infinity;
};
