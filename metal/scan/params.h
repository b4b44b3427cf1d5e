#pragma once

#include "lib/types.h"

enum : uint32_t {
  kScanColumns = 256,  // columns per threadgroup
  kScanUnroll = 4,     // elements of a column to load before the first is used
  kScanEach = 16,      // row elements that a thread scans at a time, limited to kScanBytes
  kScanBytes = 64,
};

// A scan along the middle dimension of [outer, size, inner]. If inner is 1, rows are scanned. Otherwise, columns are
// scanned.
struct ScanParams {
  uint32_t size, inner;
  uint32_t chunk, chunks;  // elements of a row or column per chunk; number of chunks
  uint32_t writes;         // whether to store results, rather than only the state at the end of each chunk
  uint32_t aligned;        // whether 16-byte vectors of a row are aligned
};
