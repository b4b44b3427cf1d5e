#pragma once

#include "lib/shared.h"

// Rows and columns of a tile that a transposing copy moves at a time, on a GPU and on a CPU.
enum : uint32_t { kTransposeTile = 32, kWideTransposeTile = 128 };

// A dispatch over up to four dimensions, innermost first; strides in elements, operand 0 is the output.
struct StridedParams {
  uint32_t size[4];
  int64_t stride[4][4];
};

// Scalar arguments of an operator in both forms; a kernel reads the one of its compute type.
struct ScalarParams {
  float f[4];
  int64_t i[4];
  uint32_t inlined;  // bit k: operand k is not memory but scalar 0
  uint32_t count;    // elements of a dense dispatch
  float zero;        // 0; see kept in elementwise/scalars.h
};

// start + i * step for i = first, first + 1, …
struct SequenceParams {
  float start, step, step_low;
  uint32_t first;
  int64_t int_start, int_step;
};

// `count` values from start to end, for i = first, first + 1, …: each half from its own end, so that both are met.
struct LinspaceParams {
  float start, end, step, step_low;
  uint32_t first, count;
};

// Whole numbers: (start + i * step) / parts without what is left of it, for i below count. `rise` and `rest` are the step's
// quotient, rounded down, and remainder by parts.
struct WholeLinspaceParams {
  int64_t start, step, parts, rise, rest;
  uint32_t count, padding;
};

enum : uint32_t { kBlock = 1024 };  // elements that a thread of a kernel *_blocks has
