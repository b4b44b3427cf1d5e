#pragma once

#include "lib/types.h"

enum : uint32_t {
  kReduceColumns = 256,  // columns per threadgroup
  kMergeColumns = 32,    // columns of partial results per threadgroup
  kReduceBlock = 4096,   // number of elements of a row that are summed before the running sum is updated
};

// A matrix diagonal. Its elements are `step` elements apart.
struct TraceParams {
  int64_t step;
  uint32_t count;
};

// A reduction as nested loops over the kept dimensions, the lines and the inner dimension. `rows` kernels reduce both
// the lines and the inner dimension. `columns` kernels reduce only the lines. Strides are in elements, innermost first.
struct ReduceParams {
  uint32_t kept_size[4];
  int64_t kept_stride[4], kept_out[4];
  uint32_t line_size[3];
  int64_t line_stride[3];
  uint64_t inner_size;
  int64_t inner_stride, inner_out;
  uint64_t lines;                     // product of line_size
  uint64_t split_lines, split_inner;  // lines and inner elements per split
  uint64_t outputs;                   // number of outputs; partial results are stored as [split][output]
  uint32_t splits;                    // 1 if there are no partial results
  uint32_t both;                      // whether to store a second result: the mean (var) or the value (arg)
  float count;                        // number of elements per output
  float p;                            // exponent of a norm, or correction of var
  uint32_t row_threads;               // threads per row in `rows` kernels (see RowGroup)
  uint32_t offset;                    // number of elements from a 16-byte boundary to the input
  uint32_t aligned;                   // `columns` kernels: whether every line and tile is 16-byte aligned
  uint32_t unused;
};
static_assert(sizeof(ReduceParams) == 208, "one layout for C++ and Metal");

// The minimum and maximum of `count` elements. Each threadgroup reduces `each` of them.
struct AminmaxParams {
  uint64_t count, each;
};
