#pragma once

#include "lib/shared.h"

// A thread holds so much of a row, or of two side by side. A row has at most the threads that have registers for it.
enum : uint32_t { kHeldBytes = 128, kRowThreads = 1024 };
// Elements of a row of a matrix that a thread multiplies.
enum : uint32_t { kHeldValues = 32 };

// Rows that lie one after the other, and how threads share them out (src/ops/rows.h fills it in).
struct RowShape {
  uint32_t rows, size;
  uint32_t team;    // threads a row: a power of two within a SIMD group, or else a threadgroup's
  uint32_t offset;  // elements between a multiple of 16 bytes and the first row
  uint32_t packed;  // whether all operands' rows are as far from such a multiple
};
