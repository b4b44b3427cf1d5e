// Index access in kernels.
#pragma once

#include "lib/error.h"

// Reads an index that `index_check` has checked: it is in range, or an error is pending. Clamp it, since kernels may
// run before the host sees the error.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
  return min(max(position, 0L), size - 1);
}
