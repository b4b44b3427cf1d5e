#pragma once

#include "lib/shared.h"

// Three spatial dimensions; missing ones have size 1.
struct ConvWindow {
  uint32_t source[3];     // what is read: the input, or where the convolution goes backwards, its result
  uint32_t positions[3];  // what is computed
  uint32_t taps[3];
  int32_t stride[3], padding[3], dilation[3];
};

// A factor that is read as a matrix: column c is at c / inner * outer_stride + c % inner.
struct ConvMatrix {
  int64_t row_stride, outer_stride, group_stride;
  uint32_t inner;
};

// Where a row (channel, tap) of the patches lies from the place that column (image, position) begins at. Coordinates
// may be outside.
struct ConvTapOffset {
  int64_t offset;  // in elements
  int32_t at[3];
  uint32_t unused;
};

// result = matrix x patches for each group, where column (image, position) of the patches has a row for each
// (channel, tap); or, for the gradient of the weight, matrix x patches transposed.
struct ConvParams {
  ConvWindow window;
  ConvMatrix matrix;
  int64_t image_stride, channel_stride, source_stride[3];  // of the source
  int64_t out_image, out_channel, out_position;            // strides of the result
  uint32_t images, channels;                               // channels of the source in a group
  uint32_t rows, columns, depth;                           // of the product
  uint32_t has_bias;
  uint32_t wide_matrix, wide_source;  // whether 16 bytes of a factor's neighbours are aligned
  uint32_t splits, split_depth;       // as in MatmulParams
};
