// Errors that a kernel finds. The launcher passes the record (src/runtime/device_error.h) and throws what it holds.
#pragma once

#include "lib/types.h"

struct ErrorRecord {  // layout: src/runtime/error_record.h
  atomic_uint state;
  uint dimension;
  long index;
  long size;
};

// Reports a value of operand `operand` (0: input, 1: target) outside of [0, 1]; the first report wins.
inline void report_outside_unit(device ErrorRecord* record, uint operand) {
  if (atomic_exchange_explicit(&record->state, 2u, memory_order_relaxed) != 0u) return;
  record->dimension = operand;
}

// Reports an index out of [-size, size); the first report wins.
inline void report_index(device ErrorRecord* record, uint dimension, long index, long size) {
  if (atomic_exchange_explicit(&record->state, 1u, memory_order_relaxed) != 0u) return;
  record->dimension = dimension;
  record->index = index;
  record->size = size;
}
