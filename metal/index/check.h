// Indices as kernels read them.
#pragma once

#include "lib/error.h"

// An index that `index_check` has seen already: in range, or reported. A GPU may get here before the report is read, so
// the index is kept inside; on a CPU the launcher has read it and thrown.
inline long known_index(long index, long size, bool negative) {
  const long position = negative && index < 0 ? index + size : index;
#if MPSX_VECTOR_BYTES
  return min(max(position, 0L), size - 1);
#else
  return position;
#endif
}
