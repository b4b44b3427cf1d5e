// Indices as kernels read them.
#pragma once

#include "lib/error.h"

// An index that `index_check` has seen already: in range, or reported. A kernel may run before the report is read, so
// the index is kept inside.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
  return min(max(position, 0L), size - 1);
}
