#pragma once

#include "lib/row_params.h"

// Samples whose losses a threadgroup adds up, and its threads.
enum : uint32_t { kNllSamples = 512, kNllThreads = 256 };

// nll_loss over samples s = n * inner + i of an input (n, classes, inner).
struct NllParams {
  int64_t ignore_index;
  int64_t classes;
  uint32_t inner;
  uint32_t samples;
  uint32_t has_weight;
  uint32_t mean;     // divide by the total weight
  uint32_t reduced;  // backward: one gradient for all samples
};

// cross_entropy of rows of scores, a row for every sample.
struct CrossEntropyParams {
  NllParams loss;
  RowShape shape;
};

// A loss of one input and one target element.
struct PointwiseLossParams {
  uint64_t count;
  float parameter;      // beta, delta
  float scale;          // of the sum, or of the gradient
  uint32_t has_weight, packed;  // packed: of each element, operands are aligned to packs (lib/pack.h)
};

// Margin losses of rows of `classes` numbers. `scale`: 1 / classes, and of a mean's gradient 1 / (classes * rows).
struct MarginParams {
  uint32_t classes;
  uint32_t squared;     // multi_margin_loss: of squared margins
  uint32_t has_weight;  // multi_margin_loss: of classes
  uint32_t reduced;     // backward: one gradient for all rows
  float margin;         // multi_margin_loss: 1 in multilabel_margin_loss
  float scale;
};
