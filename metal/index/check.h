// How kernels read indices.
#pragma once

#include "lib/error.h"

// An index that `index_check` has checked: it is in range, or an error is pending. Kernels may run before the error is
// read, so clamp the index.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
  return min(max(position, 0L), size - 1);
}
