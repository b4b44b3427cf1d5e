// Reads indices that a previous kernel has validated.
#pragma once

#include "lib/error.h"

// Reads an index that `index_check` has already validated. An out-of-range index has been reported, but the host may
// not have seen the error yet, so clamp it to stay in bounds.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
  return min(max(position, 0L), size - 1);
}
