// Checks of indices in the kernels that torch.compile generates.
#pragma once

#include "lib/types.h"

// Checks a thread's indices into one dimension. The kernel reports those out of range at its end, because leaving
// earlier would prevent vectorization on CPUs, and would skip barriers on GPUs.
struct IndexRange {
  long size;
  long low = 0, high = 0;  // the smallest and the largest of the indices so far

  // Replaces an index out of range with 0, which is safe to load.
  template <typename I>
  void check(thread I& index) {
    const long i = index;
    low = i < low ? i : low;
    high = i > high ? i : high;
    index = i < 0 || i >= size ? I(0) : index;
  }
  bool failed() const { return low < 0 || high >= size; }
  long invalid() const { return low < 0 ? low : high; }
};
