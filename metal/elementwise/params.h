#pragma once

#include "lib/types.h"

// Size of the square tile that a transposing copy moves at a time, for 4-byte and larger elements.
enum : uint32_t { kTransposeTile = 32 };
constexpr uint32_t transpose_side(uint32_t bytes) { return bytes < 4 ? 4 * kTransposeTile / bytes : kTransposeTile; }

// A dispatch over up to four dimensions, innermost first. Strides are in elements. Operand 0 is the output.
struct StridedParams {
  uint32_t size[4];
  int64_t stride[4][4];
  uint32_t vectorized, unused;  // vectorized: the rows of a dense kernel are aligned to vectors (lib/vec.h)
};

// An operator's scalar arguments in both representations. A kernel reads the one for its compute type.
struct ScalarParams {
  float f[4];
  int64_t i[4];
  uint32_t inlined;  // bit k: operand k is scalar 3 and has no memory
  uint32_t unused;
};

// start + i * step for i = first, first + 1, …
struct SequenceParams {
  float start, step, step_low;
  uint32_t first;
  int64_t int_start, int_step;
};

// `count` values from start to end, for i = first, first + 1, … Each half of the sequence counts from its own end, so
// both ends are exact.
struct LinspaceParams {
  float start, end, step, step_low;
  uint32_t first, count;
};

// Integer linspace: trunc((start + i * step) / parts) for i < count.
struct IntegerLinspaceParams {
  int64_t start, step, parts;
};
