#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kScanColumns = 256,  // columns a threadgroup owns
  kScanThreads = 1024,  // threads a threadgroup has at most
  kScanRows = 16,       // rows that one thread scans side by side
  kScanTile = 32,       // elements of them at a time
};

// Scans along one dimension of a block [outer, size, inner]: rows (inner is 1), or columns.
struct ScanParams {
  uint32_t size, inner;
  uint32_t rows, rows_per_group;  // of rows: how many there are, and how many a threadgroup takes: 1 or kScanRows
};
