// Reads indices that a preceding kernel has validated.
#pragma once

#include "lib/error.h"

// Reads an index that `index_check` has validated. That kernel reports an out-of-range index, but the host may not have
// seen the error yet. The index is therefore clamped, to stay in bounds.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
  return min(max(position, 0L), size - 1);
}
