#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kScanColumns = 256,  // columns a threadgroup owns
  kScanLines = 4,      // elements of a column that are on their way before the first is used
  kScanEach = 16,      // elements of a row that a thread scans at once, of no more than kScanBytes
  kScanBytes = 64,
};

// Scans along one dimension of a block [outer, size, inner]: rows where inner is 1, else columns.
struct ScanParams {
  uint32_t size, inner;
  uint32_t chunk, chunks;  // elements of a row or a column that a threadgroup scans, and how many such chunks there are
  uint32_t writes;         // whether results are written, or the states at the ends of chunks
  uint32_t packed;         // rows: whether 16 bytes of neighbours are aligned
};
