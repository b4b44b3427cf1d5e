// The layout of an error record, shared with kernels (metal/lib/error.h states it in Metal's types).
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The first thread to report wins: it sets `state` with an atomic exchange.
struct ErrorRecord {
  enum : uint32_t { kNone, kIndex, kOutsideUnit, kWeights };
  uint32_t state;
  uint32_t dimension;  // kIndex: the indexed dimension; kOutsideUnit: the operand; kWeights: whether one is invalid
  int64_t index;       // as passed by the user
  int64_t size;        // of that dimension
};
static_assert(sizeof(ErrorRecord) == 24);

}  // namespace mpsx::runtime
