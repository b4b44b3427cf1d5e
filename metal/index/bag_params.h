#pragma once

#include "lib/shared.h"

// Rows of a table added up (or their maxima) by bag; a bag reaches from its offset to the next.
struct BagParams {
  int64_t rows;      // of the table
  int64_t padding;   // an index that does not count, or -1
  uint32_t width;    // of a row
  uint32_t mode;     // as torch.nn.functional.embedding_bag counts them: sum, mean, max
  uint32_t count;    // of indices, where the last bag ends
  uint32_t bags;
  uint32_t weighted;
};
