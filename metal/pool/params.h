#pragma once

#include "lib/types.h"

// channels_last: adjacent channels per thread, 16 bytes of half or 32 bytes of float.
enum : int32_t { kChannelTile = 8 };

// 2-D pooling. Sizes are those of one plane. Only channels_last uses `channels`.
struct Pool2dParams {
  int32_t in_h, in_w, out_h, out_w, channels;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t rows_per_group, across;  // max pooling: rows per threadgroup, and threads (a power of two) that share a row
};

// Max pooling over rows of `in` elements.
struct Pool1dParams {
  int32_t in, out, kernel, stride, pad, dilation;
};

// Average pooling, outermost dimension first, over regular windows or (adaptive) even divisions of the input.
struct AvgPoolParams {
  int32_t in[3], out[3], kernel[3], stride[3], pad[3];
  int32_t channels;  // channels_last
  int32_t count_include_pad;
  int32_t divisor;  // divisor_override, or 0
};
