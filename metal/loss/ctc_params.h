#pragma once

#include "lib/types.h"

// Parameters of ctc_loss. The alpha and beta buffers have dimensions `steps` and `states` (2 * longest target + 1). The
// table has one row per sequence: input length, target length, target offset, target stride.
struct CtcParams {
  uint32_t batch, classes, steps, states;
  int64_t blank;
  int64_t step_stride, batch_stride, class_stride;  // strides of the log-probabilities
  uint32_t zero_infinity;
};
