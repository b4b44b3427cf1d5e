#pragma once

#include "lib/types.h"

// Parameters for selecting rows: out[o][k][:] = in[o][index[k]][:]. A row has `row` contiguous elements.
struct RowsParams {
  int64_t size;    // size of the indexed dimension
  int64_t outer;   // stride between blocks of the indexed tensor, in elements
  int64_t pitch;   // stride between rows of the indexed tensor
  uint32_t count;  // number of indices
  uint32_t row;
  uint32_t dimension;       // the indexed dimension, for error messages
  uint32_t negative;        // whether negative indices count from the end
  uint32_t vectorized;      // whether rows are aligned for vector access (lib/vec.h)
  uint32_t rows_per_group;  // number of consecutive rows that a threadgroup copies
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
  uint32_t inner;  // number of columns that form an element
  float start;     // initial value of each reduction
  float empty;     // the mean of an empty segment
  uint32_t mean;   // whether to divide by the segment's length
};

// Parameters for kernels that index one dimension of an operand. The grid has up to four dimensions, innermost first
// (metal/lib/index.h).
struct IndexParams {
  uint32_t size[4];
  int64_t stride[4][4];  // strides of each operand; operand 0 is the output
  int64_t dim_size;      // size of the indexed dimension
  int64_t dim_stride;    // stride of the indexed operand in that dimension
  uint32_t negative;     // as in RowsParams
  uint32_t add;          // whether to add to the output instead of overwriting it
};

// A dispatch over rows in up to four dimensions, innermost first. Operands: output, input.
struct FlipParams {
  uint32_t size[4];
  int64_t stride[2][4];
  uint32_t vectorized, unused;  // whether output rows start, and input rows end, at 16-byte boundaries
};

// Parameters of scatter, which processes rows along the indexed dimension. Each thread processes whole rows in order,
// and a threadgroup processes kScatterRows adjacent rows. Operands: self, index, source. scatter_add_rows accumulates
// kScatterSums elements per threadgroup, and each lane loads kScatterUnroll elements before it adds the first.
enum : uint32_t { kScatterRows = 256, kScatterSums = 4096, kScatterUnroll = 8 };
struct ScatterParams {
  uint32_t size[4];  // sizes of the non-indexed dimensions, innermost first; size[3] is 1
  int64_t stride[3][4];
  int64_t step[3];   // strides along the indexed dimension
  int64_t dim_size;  // size of self's indexed dimension
  uint32_t count;    // size of the index in that dimension
  uint32_t negative;
  uint32_t rows_per_group;  // number of rows that a threadgroup processes
};

// Parameters for summing rows with equal keys.
struct SegmentParams {
  int64_t outer;    // stride between blocks of the output, in elements
  int64_t pitch;    // stride between rows of the output
  int64_t padding;  // key to ignore, or -1
  uint32_t count, row;
  uint32_t by_frequency;    // whether to divide each sum by the number of rows
  uint32_t add;             // whether to add to the output instead of overwriting it
  uint32_t vectorized;      // whether rows are aligned for vector access (lib/vec.h)
  uint32_t rows_per_group;  // number of sorted entries that a threadgroup processes
};

struct NonzeroParams {
  uint64_t count, total;
  uint32_t dims, chunk;
  uint32_t size[16];  // outermost first
};

// Parameters for finding runs of equal adjacent elements, chunk by chunk. `lengths` and `inverse` select the optional
// outputs. `ordered` means that the elements were sorted first.
struct UniqueParams {
  uint64_t count;
  uint32_t chunk, lengths, inverse, ordered;
};

// tril keeps the diagonal and everything below it. triu (`upper`) keeps the diagonal and everything above it.
struct TriangleParams {
  int64_t diagonal;
  uint32_t rows, columns, upper;
  uint32_t vectorized;  // whether rows are aligned for vector access (lib/vec.h)
};

// A threadgroup counts kHistogramChunk elements. If there are at most kGroupBins bins, it counts in threadgroup memory.
// histc divides [low, high] into equal bins.
enum : uint32_t { kHistogramChunk = 32768, kGroupBins = 4096 };
struct HistogramParams {
  uint32_t count, bins;
  float low, high;
};
