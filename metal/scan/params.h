#pragma once

#include "lib/types.h"

enum : uint32_t {
  kScanColumns = 256,  // columns per threadgroup
  kScanUnroll = 4,     // elements of a column to load before using the first
  kScanEach = 16,      // maximum number of row elements that a thread scans at once, up to kScanBytes
  kScanBytes = 64,
};

// Scans along one dimension of a block [outer, size, inner]: along rows if inner is 1, otherwise along columns.
struct ScanParams {
  uint32_t size, inner;
  uint32_t chunk, chunks;  // elements of a row or column per threadgroup, and number of chunks
  uint32_t writes;         // whether to store the results, or only the states at the ends of chunks
  uint32_t aligned;        // rows: whether 16-byte vectors are aligned
};
