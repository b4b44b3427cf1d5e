#pragma once

#include "lib/types.h"

// Bytes of a row (or of a pair of rows) that each thread keeps in registers, and the largest threadgroup size that
// leaves each thread enough registers for them.
enum : uint32_t { kRegisterBytes = 128, kRowThreads = 1024 };
// Number of elements of a matrix row that each thread multiplies in gemv.
enum : uint32_t { kRegisterElements = 32 };

// Contiguous rows, and how they are distributed over threads. src/ops/rows.h fills this in.
struct RowShape {
  uint32_t rows, size;
  uint32_t row_threads;  // threads per row: either a power of two within a SIMD group, or a whole threadgroup
  uint32_t offset;       // elements from a 16-byte boundary to the first row
  uint32_t vectorized;   // whether the rows of all operands start at the same offset from a 16-byte boundary
};
