// The layout of an error record, shared with kernels (metal/lib/error.h states it in Metal's types).
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The first thread to report wins: `state` leaves 0 by an atomic exchange.
struct ErrorRecord {
  enum : uint32_t { kNone, kIndex, kOutsideUnit, kWeights };
  uint32_t state;
  uint32_t dimension;  // the dimension the index is for; of a value outside of [0, 1], the operand; of
                       // weights, whether some are none
  int64_t index;       // as given
  int64_t size;        // of that dimension
};
static_assert(sizeof(ErrorRecord) == 24);

}  // namespace mpsx::runtime
