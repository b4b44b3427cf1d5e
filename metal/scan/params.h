#pragma once

#include "lib/types.h"

enum : uint32_t {
  kScanColumns = 256,  // columns per threadgroup
  kScanUnroll = 4,     // elements of a column that are loaded before the first is used
  kScanEach = 16,      // row elements that a thread scans at once, at most kScanBytes of them
  kScanBytes = 64,
};

// Scans along the middle dimension of [outer, size, inner]: along rows if inner is 1, otherwise along columns.
struct ScanParams {
  uint32_t size, inner;
  uint32_t chunk, chunks;  // elements of a row or column per threadgroup; number of chunks
  uint32_t writes;         // whether to store the results; otherwise stores only the states at the ends of chunks
  uint32_t aligned;        // whether 16-byte vectors of a row are aligned
};
