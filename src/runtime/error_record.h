// The layout of an error record. metal/lib/error.h declares the same layout for kernels.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// Threads claim the record with an atomic exchange of `state`, so only the first one reports.
struct ErrorRecord {
  enum : uint32_t { kNone, kIndex, kOutsideUnit, kWeights };
  uint32_t state;
  // kIndex: indexed dimension; kOutsideUnit: 0 for input, 1 for target; kWeights: 1 if an element is invalid
  uint32_t dimension;
  int64_t index;  // as passed by the user
  int64_t size;   // size of the indexed dimension
};
static_assert(sizeof(ErrorRecord) == 24);

}  // namespace mpsx::runtime
