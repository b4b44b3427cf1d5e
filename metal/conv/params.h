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

// Divides numbers below 2^31 by a constant: T. Granlund and P. L. Montgomery, "Division by Invariant Integers using
// Multiplication" (1994), figure 4.1.
struct ConvDivisor {
  uint32_t factor, shift;
};

// Where 16 bytes of channels at one tap lie from the place that a window begins at. Coordinates may be outside.
struct ConvTapOffset {
  int64_t offset;  // in elements
  int32_t at[3];
  uint32_t unused;
};

// result = matrix x patches for each group, where column (image, position) of the patches has a row for each
// (tap, channel); or, for the gradient of the weight, matrix x patches transposed. By tiles, channels of patches are
// neighbours in memory, `padded` of them in a group, of which those beyond `channels` are zeros.
struct ConvParams {
  ConvWindow window;
  ConvMatrix matrix;
  int64_t image_stride, channel_stride, source_stride[3];  // of the source
  int64_t out_image, out_channel, out_place;               // strides of the result
  uint32_t images, channels, padded;                       // channels of the source in a group
  uint32_t rows, columns, depth;                           // of the product
  uint32_t has_bias;
  uint32_t wide_matrix, run;     // whether 16 bytes of the matrix's neighbours are aligned; elements in 16 bytes
  uint32_t splits, split_depth;  // as in MatmulParams
  ConvDivisor by[3], by_image;   // the window's positions, and all of an image
  uint32_t image_positions, per_group;  // per_group: products that a group has, one or one an image
};
