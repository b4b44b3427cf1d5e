#pragma once

#include "lib/types.h"

// Adjacent channels per thread for channels_last: 16 bytes of half or 32 bytes of float.
enum : int32_t { kChannelTile = 8 };

// Two-dimensional pooling. in_h, in_w, out_h and out_w are the sizes of one plane. `channels` is used only for
// channels_last.
struct Pool2dParams {
  int32_t in_h, in_w, out_h, out_w, channels;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t rows_per_group, across;  // max pooling: rows per threadgroup; threads per row (a power of two)
};

// One-dimensional max pooling along rows of `in` elements.
struct Pool1dParams {
  int32_t in, out, kernel, stride, pad, dilation;
};

// Average pooling over regular or adaptive windows. Dimensions are listed outermost first.
struct AvgPoolParams {
  int32_t in[3], out[3], kernel[3], stride[3], pad[3];
  int32_t channels;  // used only for channels_last
  int32_t count_include_pad;
  int32_t divisor;  // divisor_override, or 0 if it was not given
};
