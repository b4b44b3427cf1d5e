#pragma once

#include "lib/shared.h"

// Rows and columns of a square tile that a transposing copy moves at a time, of elements of so many bytes.
enum : uint32_t { kTransposeTile = 32 };
constexpr uint32_t transpose_side(uint32_t bytes) { return bytes < 4 ? 4 * kTransposeTile / bytes : kTransposeTile; }

// A dispatch over up to four dimensions, innermost first; strides in elements, operand 0 is the output.
struct StridedParams {
  uint32_t size[4];
  int64_t stride[4][4];
  uint32_t packed, unused;  // packed: rows of a dense kernel are aligned to packs (lib/pack.h)
};

// Scalar arguments of an operator in both forms; a kernel reads the one of its compute type.
struct ScalarParams {
  float f[4];
  int64_t i[4];
  uint32_t inlined;  // bit k: operand k is not memory but scalar 3
  uint32_t unused;
};

// start + i * step for i = first, first + 1, …
struct SequenceParams {
  float start, step, step_low;
  uint32_t first;
  int64_t int_start, int_step;
};

// `count` values from start to end, for i = first, first + 1, …: each half counts from its own end, so that both are
// met.
struct LinspaceParams {
  float start, end, step, step_low;
  uint32_t first, count;
};

// Integers: trunc((start + i * step) / parts) for i below count.
struct IntegerLinspaceParams {
  int64_t start, step, parts;
};
