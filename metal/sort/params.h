#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kTiny = 16,       // elements that one thread sorts in registers
  kRanked = 128,    // rows up to this size are sorted by counting what comes before each element
  kCounters = 4096,  // of digits, for all threads of a threadgroup
  kCandidates = 512,  // elements among which a threadgroup finds the first ones of a row
  // Longer rows are sorted by digits of kSortBits, in tiles of kSortEach elements a thread.
  kSortBits = 8,
  kSortDigits = 256,
  kSortThreads = 256,  // a digit each
  kSortGroups = 8,     // SIMD groups of them
  kSortEach = 8,
  kSortTile = 2048
};

// Rows of `size` elements. `order` is 0 for ascending, ~0 for descending: it flips the bits of keys.
struct SortParams {
  uint32_t size;
  uint32_t order;
  uint32_t inner;  // of columns: the distance from one element to the next
  uint32_t shift, tiles;  // of rows that are sorted by tiles: the digit's place, and how many tiles a row has
};

// The `count` first elements in order of a row, or (kthvalue, median) the one of rank `rank`.
struct SelectParams {
  uint32_t size;
  uint32_t order;
  uint32_t count;  // topk: elements wanted, from 1 to size
  uint32_t rank;   // kthvalue: which element, from 0; median and nanmedian find it themselves
  uint32_t which;  // SelectWhich
  uint32_t packed;  // whether rows are aligned to packs (lib/pack.h)
};
enum SelectWhich : uint32_t { kKth, kMedian, kNanMedian };

// `values` numbers for each row of `size` sorted boundaries, which are `row_step` apart (0: all use one row).
struct SearchParams {
  uint32_t values;
  uint32_t size;
  uint32_t row_step;
  uint32_t right;      // after equal boundaries, and not before them
  uint32_t sorted_by;  // boundaries are in order where the sorter says so
};
