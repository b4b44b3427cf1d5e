#pragma once

#include "lib/types.h"

// Row selection: out[o][k][:] = in[o][index[k]][:], where each row has `row` contiguous elements.
struct RowsParams {
  int64_t size;    // size of the indexed dimension
  int64_t outer;   // stride between the outer blocks of the indexed tensor, in elements
  int64_t pitch;   // stride between rows of the indexed tensor
  uint32_t count;  // length of the index
  uint32_t row;
  uint32_t dimension;       // the indexed dimension, for error messages
  uint32_t negative;        // whether negative indices count from the end
  uint32_t vectorized;      // whether rows are aligned for vector access (lib/vec.h)
  uint32_t rows_per_group;  // consecutive rows that a threadgroup copies
};

// Parameters for validating indices. Each thread checks kChecked indices.
enum : uint32_t { kChecked = 16 };
struct CheckParams {
  int64_t size, count;
  uint32_t dimension, negative;  // as in RowsParams
};

// Parameters for segment reductions along rows. Each thread reduces kSegmentColumns adjacent columns.
enum : uint32_t { kSegmentColumns = 4 };
struct SegmentReduceParams {
  int64_t size;    // elements per row
  uint32_t count;  // segments per row
  uint32_t inner;  // columns per element
  float start;     // initial value of the reduction
  float empty;     // the mean of an empty segment
  uint32_t mean;   // whether to divide the result by the segment's length
};

// A grid over up to four dimensions, innermost first (metal/lib/index.h), that indexes one dimension of an operand.
struct IndexParams {
  uint32_t size[4];
  int64_t stride[4][4];  // strides per operand, the output first
  int64_t dim_size;      // size of the indexed dimension
  int64_t dim_stride;    // stride of the indexed operand along that dimension
  uint32_t negative;     // as in RowsParams
  uint32_t add;          // add to the output instead of overwriting it
};

// A dispatch over rows, with up to four dimensions, innermost first. Operands: output, input.
struct FlipParams {
  uint32_t size[4];
  int64_t stride[2][4];
  uint32_t vectorized, unused;  // whether output rows start, and input rows end, at 16-byte boundaries
};

// scatter processes rows along the indexed dimension. Each thread processes complete rows in order, and a threadgroup
// processes kScatterRows adjacent rows. Operands: self, index, source. scatter_add_rows accumulates kScatterSums
// elements per threadgroup, and a lane loads kScatterUnroll elements before it adds the first.
enum : uint32_t { kScatterRows = 256, kScatterSums = 4096, kScatterUnroll = 8 };
struct ScatterParams {
  uint32_t size[4];  // sizes of the dimensions that are not indexed, innermost first; size[3] is 1
  int64_t stride[3][4];
  int64_t step[3];   // strides along the indexed dimension
  int64_t dim_size;  // size of self's indexed dimension
  uint32_t count;    // length of the index along that dimension
  uint32_t negative;
  uint32_t rows_per_group;  // rows per threadgroup
};

// Parameters for summing rows with equal keys.
struct SegmentParams {
  int64_t outer;    // stride between blocks of the output, in elements
  int64_t pitch;    // stride between rows of the output
  int64_t padding;  // a key to ignore, or -1 for none
  uint32_t count, row;
  uint32_t by_frequency;    // divide by the number of rows
  uint32_t add;             // add to the output instead of overwriting it
  uint32_t vectorized;      // whether rows are aligned for vector access (lib/vec.h)
  uint32_t rows_per_group;  // sorted entries per threadgroup
};

struct NonzeroParams {
  uint64_t count, total;
  uint32_t dims, chunk;
  uint32_t size[16];  // outermost first
};

// Finds runs of equal adjacent elements, chunk by chunk. `lengths` and `inverse` select the optional outputs.
// `ordered`: whether the elements were sorted.
struct UniqueParams {
  uint64_t count;
  uint32_t chunk, lengths, inverse, ordered;
};

// tril keeps the diagonal and everything below it; triu (`upper`) keeps the diagonal and everything above.
struct TriangleParams {
  int64_t diagonal;
  uint32_t rows, columns, upper;
  uint32_t vectorized;  // whether rows are aligned for vector access (lib/vec.h)
};

// A threadgroup counts kHistogramChunk elements, in threadgroup memory if there are at most kGroupBins bins. histc
// divides [low, high] into equal bins.
enum : uint32_t { kHistogramChunk = 32768, kGroupBins = 4096 };
struct HistogramParams {
  uint32_t count, bins;
  float low, high;
};
