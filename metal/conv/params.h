#pragma once

#include "lib/types.h"

// The geometry of a convolution with three spatial dimensions. Missing dimensions have size 1.
struct ConvWindow {
  uint32_t source[3];     // spatial size of the tensor that the kernel reads
  uint32_t positions[3];  // spatial size of the tensor that the kernel computes
  uint32_t taps[3];
  int32_t stride[3], padding[3], dilation[3];
};

// An operand viewed as a matrix whose column c starts at offset c / inner * outer_stride + c % inner.
struct ConvMatrix {
  int64_t row_stride, outer_stride, group_stride;
  uint32_t inner;
};

// Fast division of numbers below 2^31 by an invariant divisor: T. Granlund and P. L. Montgomery, "Division by
// Invariant Integers using Multiplication" (1994), figure 4.1.
struct FastDivmod {
  uint32_t multiplier, shift;
};

// The offset of a 16-byte vector of channels at one tap, relative to the first element of the window.
struct ConvTapOffset {
  int64_t offset;  // in elements
  int32_t index[3];
  uint32_t unused;
};

// Parameters of an implicit GEMM, which computes output = weight x im2col(source) for each group. The rows of im2col
// are (tap, channel) pairs, and its columns are (image, position) pairs. The weight gradient is output gradient x
// im2col(source)^T. The tiled kernels require contiguous source channels, zero-padded to `padded_channels` per group.
struct ConvParams {
  ConvWindow window;
  ConvMatrix matrix;
  int64_t image_stride, channel_stride, source_stride[3];  // strides of the source
  int64_t out_image, out_channel, out_position;            // strides of the output
  uint32_t images, channels, padded_channels;              // channels: source channels per group
  uint32_t M, N, K;                                        // GEMM sizes
  uint32_t has_bias;
  uint32_t vectorize_matrix, vec_elements;    // whether weight rows allow 16-byte loads; elements per vector
  uint32_t split_k, k_per_split;              // as in MatmulParams
  FastDivmod by[3], by_image;                 // divide by window.positions and image_positions
  FastDivmod by_stride[3];                    // divide by window.stride
  uint32_t image_positions, gemms_per_group;  // gemms_per_group: 1, or 1 per image
};
