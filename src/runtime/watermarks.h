// Limits on reserved memory, read from PyTorch's MPS environment variables.
#pragma once

#include "driver/driver.h"

namespace mpsx::runtime {

// Limits in bytes. Above `low`, the allocator frees cached memory before it reserves more. Above `high`, allocations
// fail.
struct Watermarks {
  size_t low, high;
};

// Reads PYTORCH_MPS_HIGH_WATERMARK_RATIO and PYTORCH_MPS_LOW_WATERMARK_RATIO, which are fractions of the memory size
// that the driver recommends. A ratio of 0 means no limit. On Metal, where the recommendation is conservative, the
// defaults are 1.7 and 1.4. On other drivers, both are 1. Throws c10::Error unless both ratios are between 0 and 2 and
// the low one does not exceed the high one.
Watermarks watermarks(const driver::Driver& driver);

// Parses MPSX_MEMORY_LIMIT into bytes: "1500000", "1.5e6", "64M" or "2 GiB". K, M, G and T are powers of 1024.
size_t memory_limit(const char* text);

}  // namespace mpsx::runtime
