#pragma once

#include "lib/types.h"

// Sums, means or maxima of table rows per bag. A bag extends from its offset to the next bag's offset.
struct BagParams {
  int64_t rows;     // rows in the table
  int64_t padding;  // an index to ignore, or -1 for none
  uint32_t width;   // elements per row
  uint32_t mode;    // numbered as in torch.nn.functional.embedding_bag: sum, mean, max
  uint32_t count;   // number of indices, and the end of the last bag
  uint32_t bags;
  uint32_t weighted;
};
