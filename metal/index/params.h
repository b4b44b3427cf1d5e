#pragma once

#include "lib/shared.h"

// Rows picked by an index: out[o][k][:] = in[o][index[k]][:], each row `row` neighbouring elements.
struct RowsParams {
  int64_t size;        // of the indexed dimension
  int64_t outer;       // elements between the blocks o of the indexed tensor
  int64_t pitch;       // elements between its rows
  uint32_t count;      // of the index
  uint32_t row;
  uint32_t dimension;  // named in errors
  uint32_t negative;   // whether indices below zero count from the end
  uint32_t packed;     // whether rows are aligned to packs (lib/pack.h)
  uint32_t together;   // neighbouring rows that a threadgroup copies
};

// An index to be checked; a thread looks at kChecked elements of it.
enum : uint32_t { kChecked = 16 };
struct CheckParams {
  int64_t size, count;
  uint32_t dimension, negative;  // as in RowsParams
};

// Reductions of the segments of rows; a thread handles kSegmentColumns neighbouring columns.
enum : uint32_t { kSegmentColumns = 4 };
struct SegmentReduceParams {
  int64_t size;    // elements of a row
  uint32_t count;  // segments of a row
  uint32_t inner;  // columns of an element
  float start;     // what a reduction begins with
  float empty;     // the mean of no elements
  uint32_t mean;   // whether the result is divided by the segment's length
};

// A grid over at most four dimensions, innermost first (metal/lib/index.h), and an index into one of an operand's.
struct IndexParams {
  uint32_t size[4];
  int64_t stride[4][4];  // by operand: the output first
  int64_t dim_size;      // of the indexed dimension
  int64_t dim_stride;    // of the indexed operand along it
  uint32_t negative;     // as in RowsParams
  uint32_t add;          // to what the output holds, rather than replacing it
};

// A dispatch over rows of up to four dimensions, innermost first; operands: the output, the input.
struct FlipParams {
  uint32_t size[4];
  int64_t stride[2][4];
  uint32_t packed, unused;  // packed: the output's rows begin at multiples of 16 bytes, and the input's end at some
};

// Lines along the indexed dimension, each walked in order by one thread; a threadgroup owns kScatterLines neighbours.
// Operands: self, index, source. Of sums of rows a threadgroup holds kScatterSums, and a lane loads kScatterAhead
// elements before it adds the first.
enum : uint32_t { kScatterLines = 256, kScatterSums = 4096, kScatterAhead = 8 };
struct ScatterParams {
  uint32_t size[4];        // of the other dimensions, innermost first; the last is 1
  int64_t stride[3][4];
  int64_t step[3];         // strides along the indexed dimension
  int64_t dim_size;        // of self's
  uint32_t count;          // of the index along it
  uint32_t negative;
  uint32_t together;       // rows that a threadgroup adds up
};

// Rows with the same key added up (or the last of them kept).
struct SegmentParams {
  int64_t outer;          // elements between blocks of the output
  int64_t pitch;          // elements between its rows
  int64_t padding;        // a key that gets nothing, or -1
  uint32_t count, row;
  uint32_t by_frequency;  // divide by the number of rows
  uint32_t add;           // to what the output holds
  uint32_t packed;        // whether rows are aligned to packs (lib/pack.h)
  uint32_t together;      // neighbours in the order that a threadgroup looks at
};

struct NonzeroParams {
  uint64_t count, total;
  uint32_t dims, chunk;
  uint32_t size[16];  // outermost first
};

// Runs of equal neighbours among `count` elements, in chunks; the results wanted. `ordered`: elements were sorted.
struct UniqueParams {
  uint64_t count;
  uint32_t chunk, lengths, inverse, ordered;
};

// tril keeps what lies on a diagonal and below it, triu (`upper`) what lies on it and above.
struct TriangleParams {
  int64_t diagonal;
  uint32_t rows, columns, upper;
  uint32_t packed;  // whether rows are aligned to packs (lib/pack.h)
};

// A threadgroup counts kHistogramChunk elements, in its own memory where there are at most kGroupBins bins. histc has
// parts of [low, high].
enum : uint32_t { kHistogramChunk = 32768, kGroupBins = 4096 };
struct HistogramParams {
  uint32_t count, bins;
  float low, high;
};
