// The layout of an error record. metal/lib/error.h declares the same layout for kernels.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// A thread claims the record by an atomic exchange of `state`, so only the first thread reports its error.
struct ErrorRecord {
  enum : uint32_t { kNone, kIndex, kOutsideUnit, kWeights };
  uint32_t state;
  // kIndex: the indexed dimension. kOutsideUnit: 0 for the input, 1 for the target. kWeights: 1 if an element is
  // invalid.
  uint32_t dimension;
  int64_t index;  // the index that the user passed
  int64_t size;   // size of the indexed dimension
};
static_assert(sizeof(ErrorRecord) == 24);

// Like check_device_errors(), for a record that device_error_record(op) has returned.
void check_device_error(const char* op, ErrorRecord& record);

}  // namespace mpsx::runtime
