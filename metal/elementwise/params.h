#pragma once

#include "lib/types.h"

// Side length of the square tiles in a transposing copy, for elements of at least 4 bytes.
enum : uint32_t { kTransposeTile = 32 };
constexpr uint32_t transpose_side(uint32_t bytes) { return bytes < 4 ? 4 * kTransposeTile / bytes : kTransposeTile; }

// A dispatch over up to four dimensions, innermost first. Strides are in elements. Operand 0 is the output.
struct StridedParams {
  uint32_t size[4];
  int64_t stride[4][4];
  uint32_t vectorized, unused;  // vectorized: whether a dense kernel's rows are aligned for vector access (lib/vec.h)
};

// The scalar arguments of an operator, both as floats and as integers. A kernel reads the ones that match its compute
// type.
struct ScalarParams {
  float f[4];
  int64_t i[4];
  uint32_t inlined;  // bit k: operand k is not a tensor but the scalar in slot 3
  uint32_t unused;
};

// The sequence start + i * step for i = first, first + 1, …
struct SequenceParams {
  float start, step, step_low;
  uint32_t first;
  int64_t int_start, int_step;
};

// `count` values from start to end, computed for i = first, first + 1, … Each half of the sequence is computed from the
// nearer endpoint, so both endpoints are exact.
struct LinspaceParams {
  float start, end, step, step_low;
  uint32_t first, count;
};

// linspace for integers: trunc((start + i * step) / parts) for i < count.
struct IntegerLinspaceParams {
  int64_t start, step, parts;
};
