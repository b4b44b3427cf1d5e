#pragma once

#include "lib/shared.h"

// Maxima of windows in up to three dimensions, which tables name: where the windows of each dimension begin, outermost
// dimension first, and then, in the same order, where they end. `table` counts from one plane's tables to the next's; 0:
// all have the same.
struct WindowPoolParams {
  int32_t in[3], out[3], dilation[3];
  int32_t table;
  int32_t width;  // at most that of a window along the innermost dimension
  int32_t rows;   // of the result that a threadgroup makes, of one plane
};

// Elements of a plane of the input and of the result.
struct WindowPlaneParams {
  int32_t in, out;
  float zero;  // 0
};

// Sums of the windows of planes that overlap: what im2col took from them, put back.
struct FoldParams {
  int32_t height, width;    // of a plane of the result
  int32_t windows_h, windows_w;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
};
