#pragma once

#include "lib/types.h"

// Max pooling over windows in up to three dimensions. A table lists the starts of each dimension's windows, outermost
// dimension first, and then their ends in the same order. `table`: the stride between the tables of planes, or 0 if
// all planes share one.
struct WindowPoolParams {
  int32_t in[3], out[3], dilation[3];
  int32_t table;
};

// Elements per input plane and per output plane.
struct WindowPlaneParams {
  int32_t in, out;
};

// Planes and their windows, for im2col and col2im.
struct FoldParams {
  int32_t height, width;  // of an output plane
  int32_t windows_h, windows_w;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
};
