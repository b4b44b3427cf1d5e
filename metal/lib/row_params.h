#pragma once

#include "lib/shared.h"

enum : uint32_t { kHeldValues = 32 };  // of a row, by each thread; of two rows side by side, half as many

// Rows that lie one after the other, and how threads share them out (src/ops/rows.h fills it in).
struct RowShape {
  uint32_t rows, size;
  uint32_t team;    // threads a row: a power of two within a SIMD group, or else a threadgroup's
  uint32_t offset;  // elements between a multiple of 16 bytes and the first row
  uint32_t packed;  // whether all operands' rows are as far from such a multiple
};
