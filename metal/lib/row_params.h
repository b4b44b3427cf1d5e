#pragma once

#include "lib/types.h"

// How many bytes of a row (or pair of rows) each thread keeps in registers, and the largest threadgroup size at which
// every thread has that many registers.
enum : uint32_t { kRegisterBytes = 128, kRowThreads = 1024 };
// Elements of a matrix row that each thread multiplies in gemv.
enum : uint32_t { kRegisterElements = 32 };

// Contiguous rows and their distribution over threads. src/ops/rows.h fills it in.
struct RowShape {
  uint32_t rows, size;
  uint32_t row_threads;  // threads per row: a power-of-two part of a SIMD group, or a whole threadgroup
  uint32_t offset;       // elements between a 16-byte boundary and the first row
  uint32_t vectorized;   // whether the rows of all operands have the same offset from a 16-byte boundary
};
