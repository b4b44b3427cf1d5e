#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kTiny = 16,       // elements that one thread sorts in registers
  kRanked = 128,  // rows up to this size are sorted by counting the elements that precede each one
  kCounters = 4096,  // digit counters, for all threads of a threadgroup
  kCandidates = 512,  // elements from which a threadgroup selects the first ones of a row
  // Longer rows are sorted by digits of kSortBits, in tiles of kSortEach elements per thread.
  kSortBits = 8,
  kSortDigits = 256,
  kSortThreads = 256,  // one digit per thread
  kSortGroups = 8,  // SIMD groups per threadgroup
  kSortEach = 8,
  kSortTile = 2048
};

// Rows of `size` elements. `order` is 0 for ascending and ~0 for descending: it flips the bits of keys.
struct SortParams {
  uint32_t size;
  uint32_t order;
  uint32_t inner;  // of columns: the stride between elements
  uint32_t shift, tiles;  // of tiled rows: the digit's bit position, and the number of tiles per row
};

// The first `count` elements of a row in order, or (kthvalue, median) the one with rank `rank`.
struct SelectParams {
  uint32_t size;
  uint32_t order;
  uint32_t count;  // topk: number of elements, from 1 to size
  uint32_t rank;  // kthvalue: the rank, from 0; median and nanmedian compute it
  uint32_t which;  // SelectWhich
  uint32_t packed;  // whether rows are aligned to vectors (lib/pack.h)
};
enum SelectWhich : uint32_t { kKth, kMedian, kNanMedian };

// `values` numbers for each row of `size` sorted boundaries, with stride `row_step` (0: all share one row).
struct SearchParams {
  uint32_t values;
  uint32_t size;
  uint32_t row_step;
  uint32_t right;  // after equal boundaries instead of before
  uint32_t sorted_by;  // the sorter gives the order of the boundaries
};
