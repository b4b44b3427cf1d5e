#pragma once

#include "lib/row_params.h"

// Samples and threads per threadgroup.
enum : uint32_t { kNllSamples = 512, kNllThreads = 256 };

// nll_loss of an input of shape (n, classes, inner). Sample s has the indices n = s / inner and i = s % inner.
struct NllParams {
  int64_t ignore_index;
  int64_t classes;
  uint32_t inner;
  uint32_t samples;
  uint32_t has_weight;
  uint32_t mean;     // whether to divide by the total weight
  uint32_t reduced;  // in the backward pass, whether all samples have the same output gradient
};

// cross_entropy of rows of logits, one row per sample.
struct CrossEntropyParams {
  NllParams loss;
  RowShape shape;
};

// Elementwise losses between an input and a target.
struct PointwiseLossParams {
  uint64_t count;
  float parameter;                  // beta or delta
  float scale;                      // multiplies the sum or the gradient
  uint32_t has_weight, vectorized;  // vectorized: all operands are aligned for vector access (lib/vec.h)
};

// Margin losses of rows with `classes` elements. `scale` is 1 / classes, or 1 / (classes * rows) in the gradient of the
// mean.
struct MarginParams {
  uint32_t classes;
  uint32_t squared;     // whether multi_margin_loss squares the margin violations
  uint32_t has_weight;  // whether multi_margin_loss has a weight for each class
  uint32_t reduced;     // backward only: whether the output gradient is a scalar
  float margin;         // for multi_margin_loss; multilabel_margin_loss uses 1
  float scale;
};
