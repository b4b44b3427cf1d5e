#pragma once

#include "lib/types.h"

// Max pooling over windows in up to three dimensions. A table lists the starts of all windows in each dimension,
// outermost dimension first, followed by the ends in the same order. `table` is the stride between the tables of
// consecutive planes, or 0 if all planes share one table.
struct WindowPoolParams {
  int32_t in[3], out[3], dilation[3];
  int32_t table;
};

// Numbers of elements per input plane and per output plane.
struct WindowPlaneParams {
  int32_t in, out;
};

// Planes and their windows, for im2col and col2im.
struct FoldParams {
  int32_t height, width;  // size of an output plane
  int32_t windows_h, windows_w;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
};
