#pragma once

#include "lib/shared.h"

// Maxima of windows in up to three dimensions. A table lists where the windows of each dimension begin, outermost
// dimension first, and then, in the same order, where they end. `table`: from one plane's table to the next one's; 0 if
// all planes share one.
struct WindowPoolParams {
  int32_t in[3], out[3], dilation[3];
  int32_t table;
};

// Elements of a plane of the input and of the result.
struct WindowPlaneParams {
  int32_t in, out;
};

// Planes and the windows over them: what im2col takes, and col2im adds up again.
struct FoldParams {
  int32_t height, width;    // of a plane of the result
  int32_t windows_h, windows_w;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
};
