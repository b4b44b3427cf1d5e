#pragma once

#include "lib/shared.h"

// Connectionist temporal classification. `steps` and `states` (twice the longest target and one) are those of the
// buffers; the lengths of each sequence, and where its target lies, are in one table: (input, target, offset, stride).
struct CtcParams {
  uint32_t batch, classes, steps, states;
  int64_t blank;
  int64_t step_stride, batch_stride, class_stride;  // of the log-probabilities
  uint32_t zero_infinity;
};
