#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kScanColumns = 256,  // columns a threadgroup owns
  kScanUnroll = 4,     // elements of a column that are loaded before the first is used
  kScanEach = 16,      // the most elements of a row that a thread scans at once, of at most kScanBytes
  kScanBytes = 64,
};

// Scans along one dimension of a block [outer, size, inner]: rows where inner is 1, else columns.
struct ScanParams {
  uint32_t size, inner;
  uint32_t chunk, chunks;  // elements of a row or a column that a threadgroup scans, and the number of such chunks
  uint32_t writes;         // whether to store results, or else the states at the ends of chunks
  uint32_t aligned;        // rows: whether 16-byte vectors are aligned
};
