#pragma once

#include "lib/types.h"

enum : uint32_t {
  kTiny = 16,       // elements that one thread sorts in registers
  kRanked = 128,  // rows up to this size are sorted by counting the elements that precede each one
  kCounters = 4096,  // digit counters of all threads in a threadgroup
  kCandidates = 512,  // maximum number of candidates for the first elements of a row
  // Longer rows are sorted by digits of kSortBits, in tiles of kSortEach elements per thread.
  kSortBits = 8,
  kSortDigits = 256,
  kSortThreads = 256,  // one digit per thread
  kSortGroups = 8,  // SIMD groups per threadgroup
  kSortEach = 8,
  kSortTile = 2048
};

// Sorts rows of `size` elements. `order` flips the bits of keys: 0 for ascending order, ~0 for descending.
struct SortParams {
  uint32_t size;
  uint32_t order;
  uint32_t inner;  // columns: the stride between elements
  uint32_t shift, tiles;  // tiled rows: the digit's bit position, and the number of tiles per row
};

// Selects the first `count` elements of a row in order, or (kthvalue, median) the element with rank `rank`.
struct SelectParams {
  uint32_t size;
  uint32_t order;
  uint32_t count;  // topk: number of elements, from 1 to size
  uint32_t rank;  // kthvalue: the rank, from 0; median and nanmedian compute it
  uint32_t which;  // SelectWhich
  uint32_t vectorized;  // whether rows are aligned to vectors (lib/vec.h)
};
enum SelectWhich : uint32_t { kKth, kMedian, kNanMedian };

// Searches for `values` numbers per row of `size` sorted boundaries. Stride `row_step` is 0 if all share one row.
struct SearchParams {
  uint32_t values;
  uint32_t size;
  uint32_t row_step;
  uint32_t right;  // insert after equal boundaries instead of before
  uint32_t sorted_by;  // whether the sorter gives the order of the boundaries
};
