#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kScanColumns = 256,   // columns a threadgroup owns
  kScanThreads = 1024,  // threads a threadgroup has at most
};

// Scans along one dimension of a block [outer, size, inner]: rows where inner is 1, else columns.
struct ScanParams {
  uint32_t size, inner;
};
