#pragma once

#include "lib/types.h"

enum : uint32_t {
  kTiny = 16,     // elements that one thread sorts in registers
  kRanked = 128,  // maximum length of rows that are sorted by counting, for each element, the elements before it
  kCounters = 4096,   // digit counters per threadgroup
  kCandidates = 512,  // maximum number of elements gathered as candidates for topk
  // Longer rows are sorted by digits of kSortBits bits, in tiles with kSortEach elements per thread.
  kSortBits = 8,
  kSortDigits = 256,
  kSortThreads = 256,  // one thread per digit
  kSortGroups = 8,     // SIMD groups per threadgroup
  kSortEach = 8,
  kSortTile = 2048
};

// Sorts rows of `size` elements. `order` is XORed with the keys: 0 for ascending order, ~0 for descending order.
struct SortParams {
  uint32_t size;
  uint32_t order;
  uint32_t inner;         // for columns: stride between elements
  uint32_t shift, tiles;  // for tiled rows: bit position of the digit; number of tiles per row
};

// Selects the first `count` elements of a row in sorted order (topk), or the element of rank `rank` (kthvalue, median).
struct SelectParams {
  uint32_t size;
  uint32_t order;
  uint32_t count;       // number of elements that topk selects, from 1 to size
  uint32_t rank;        // zero-based rank for kthvalue; the kernel computes it for median and nanmedian
  uint32_t which;       // a SelectWhich value
  uint32_t vectorized;  // whether rows are aligned for vector access (lib/vec.h)
};
enum SelectWhich : uint32_t { kKth, kMedian, kNanMedian };

// Searches for `values` numbers per row among `size` sorted boundaries. `row_step` is the stride between rows of
// boundaries, or 0 if all rows share the same boundaries.
struct SearchParams {
  uint32_t values;
  uint32_t size;
  uint32_t row_step;
  uint32_t right;      // whether to insert after equal boundaries instead of before them
  uint32_t sorted_by;  // whether the sorter tensor lists the boundaries in sorted order
};
