// Copies of elements that lie side by side.
#pragma once

#include "lib/types.h"

// Copies `count` elements by one thread; the two places do not overlap.
template <typename T>
inline void copy_run(device T* to, device const T* from, uint count) {
  for (uint i = 0; i < count; ++i) to[i] = from[i];
}
