// The layout of an error record, shared with kernels (metal/lib/error.h states it in Metal's types).
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The first thread to report wins: `state` goes from 0 to 1 by an atomic exchange.
struct ErrorRecord {
  uint32_t state;
  uint32_t dimension;  // the dimension the index is for
  int64_t index;       // as given
  int64_t size;        // of that dimension
};
static_assert(sizeof(ErrorRecord) == 24);

}  // namespace mpsx::runtime
