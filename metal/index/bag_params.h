#pragma once

#include "lib/shared.h"

// Sums (or maxima) of table rows by bag; a bag extends from its offset to the next.
struct BagParams {
  int64_t rows;      // of the table
  int64_t padding;  // an index to ignore, or -1
  uint32_t width;    // of a row
  uint32_t mode;  // torch.nn.functional.embedding_bag's numbers: sum, mean, max
  uint32_t count;  // number of indices, where the last bag ends
  uint32_t bags;
  uint32_t weighted;
};
