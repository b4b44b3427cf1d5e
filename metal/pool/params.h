#pragma once

#include "lib/shared.h"

// Neighbouring elements of a row that a CPU thread handles; a GPU's handles one. Rows that it does in turn.
enum : int32_t { kPoolTile = 64, kPoolBand = 16 };

// One 2-D pooling. Sizes of one plane; `channels` is the innermost size in channels_last, else unused.
struct Pool2dParams {
  int32_t in_h, in_w, out_h, out_w, channels;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t count_include_pad;
  int32_t divisor;  // divisor_override, or 0
  int32_t band;     // backward: rows of the input that one group or thread owns
  int32_t row_band;  // average pooling's backward in channels_last: these rows, and `band` is pixels of each
};

// Maxima of windows of rows of `in` elements.
struct Pool1dParams {
  int32_t in, out, kernel, stride, pad, dilation;
};

// Averages of boxes: regular windows of planes of three dimensions, outermost first, or (adaptive) their even shares.
struct Pool3dParams {
  int32_t in[3], out[3], kernel[3], stride[3], pad[3];
  int32_t count_include_pad;
  int32_t divisor;  // divisor_override, or 0
};
