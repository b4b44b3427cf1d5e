#pragma once

#include "lib/shared.h"

// The bytes of a row (or of two side by side) that a thread keeps in registers, and the most threads with room for
// them.
enum : uint32_t { kHeldBytes = 128, kRowThreads = 1024 };
// Elements of a matrix row that a thread multiplies.
enum : uint32_t { kHeldValues = 32 };

// Contiguous rows, and how threads share them (src/ops/rows.h fills it in).
struct RowShape {
  uint32_t rows, size;
  uint32_t row_threads;  // threads per row: a power of two within a SIMD group, or a whole threadgroup
  uint32_t offset;       // elements between a multiple of 16 bytes and the first row
  uint32_t vectorized;   // whether the rows of all operands start equally far from such a multiple
};
