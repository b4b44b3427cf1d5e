#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kReduceColumns = 256,  // columns a threadgroup owns
  kMergeColumns = 32,    // and of partial results
  kReduceBlock = 4096,   // elements of a row that are added up before they are added to the rest
};

// A diagonal: its elements are `step` apart.
struct TraceParams {
  int64_t step;
  uint32_t count;
};

// A reduction as loops: kept dimensions around lines around the inner one. Of `rows` kernels the inner dimension is
// reduced, of `columns` kernels it is kept and the lines alone are reduced. Strides in elements, innermost first.
struct ReduceParams {
  uint32_t kept_size[4];
  int64_t kept_stride[4], kept_out[4];
  uint32_t line_size[3];
  int64_t line_stride[3];
  uint64_t inner_size;
  int64_t inner_stride, inner_out;
  uint64_t lines;                       // line_size multiplied
  uint64_t split_lines, split_inner;    // how much of them one split takes
  uint64_t outputs;                     // partial results lie as [split][output]
  uint32_t splits;                      // 1: no partial results
  uint32_t both;                        // var: whether the mean is wanted too; arg: whether the value is
  float count;                          // elements reduced to one
  float p;                              // norm: its exponent; var: the divisor
  uint32_t team;                        // rows: threads that share one (lib/team.h)
  uint32_t offset;                      // elements between a multiple of 16 bytes and the input
  uint32_t packed;                      // columns: every line and block of them begins at such a multiple
  uint32_t unused;
};
static_assert(sizeof(ReduceParams) == 208, "one layout for C++ and Metal");

// Both extrema of `count` elements, `each` of them a threadgroup.
struct AminmaxParams {
  uint64_t count, each;
};
