// Errors that kernels detect. The launcher passes an error record (src/runtime/device_error.h) to the kernel and throws
// an exception if the kernel has filled it in.
#pragma once

#include "lib/types.h"

struct ErrorRecord {  // must match src/runtime/error_record.h
  atomic_uint state;
  uint dimension;
  long index;
  long size;
};

// Reports a value outside [0, 1] in the operand with index `operand` (0: input, 1: target). Only the first report is
// kept.
inline void report_outside_unit(device ErrorRecord* record, uint operand) {
  if (atomic_exchange_explicit(&record->state, 2u, memory_order_relaxed) != 0u) return;
  record->dimension = operand;
}

// Reports a negative, infinite or NaN weight if `invalid` is true. Otherwise, reports that all weights are 0. Only the
// first report is kept.
inline void report_weights(device ErrorRecord* record, bool invalid) {
  if (atomic_exchange_explicit(&record->state, 3u, memory_order_relaxed) != 0u) return;
  record->dimension = invalid;
}

// Reports an index outside [-size, size). Only the first report is kept.
inline void report_index(device ErrorRecord* record, uint dimension, long index, long size) {
  if (atomic_exchange_explicit(&record->state, 1u, memory_order_relaxed) != 0u) return;
  record->dimension = dimension;
  record->index = index;
  record->size = size;
}

// Converts an index to an offset in [0, size). If the index is out of range, reports it and returns -1.
inline long checked_index(long index, long size, bool negative, uint dimension, device ErrorRecord* errors) {
  const long position = negative && index < 0 ? index + size : index;
  if (position >= 0 && position < size) return position;
  report_index(errors, dimension, index, size);
  return -1;
}
