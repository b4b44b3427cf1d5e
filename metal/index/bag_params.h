#pragma once

#include "lib/types.h"

// Parameters for reducing table rows to one row per bag. A bag starts at its offset and ends at the offset of the next
// bag.
struct BagParams {
  int64_t rows;     // rows in the table
  int64_t padding;  // index to ignore, or -1
  uint32_t width;   // elements per row
  uint32_t mode;    // as in torch.nn.functional.embedding_bag: sum, mean, max
  uint32_t count;   // number of indices, which is the end of the last bag
  uint32_t bags;
  uint32_t weighted;
};
