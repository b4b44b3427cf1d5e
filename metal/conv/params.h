#pragma once

#include "lib/shared.h"

// The window of a convolution, in three spatial dimensions; missing ones have size 1.
struct ConvWindow {
  uint32_t source[3];     // the size of what is read: the input, or for the input gradient, the output
  uint32_t positions[3];  // the size of what is computed
  uint32_t taps[3];
  int32_t stride[3], padding[3], dilation[3];
};

// An operand read as a matrix, whose column c is at c / inner * outer_stride + c % inner.
struct ConvMatrix {
  int64_t row_stride, outer_stride, group_stride;
  uint32_t inner;
};

// Fast division of numbers below 2^31 by a constant: T. Granlund and P. L. Montgomery, "Division by Invariant Integers
// using Multiplication" (1994), figure 4.1.
struct FastDivmod {
  uint32_t multiplier, shift;
};

// The offset of a 16-byte vector of channels at one tap from the window's origin. Coordinates may be out of range.
struct ConvTapOffset {
  int64_t offset;  // in elements
  int32_t index[3];
  uint32_t unused;
};

// Implicit GEMM, for each group: output = weight matrix x im2col(source), whose rows are (tap, channel) and whose
// columns are (image, position); for the weight gradient: output gradient x im2col(source)^T. For the tiled kernels the
// channels of the source are contiguous, padded with zeros to `padded_channels` per group.
struct ConvParams {
  ConvWindow window;
  ConvMatrix matrix;
  int64_t image_stride, channel_stride, source_stride[3];  // of the source
  int64_t out_image, out_channel, out_position;            // strides of the output
  uint32_t images, channels, padded_channels;              // source channels per group
  uint32_t M, N, K;                                        // of the GEMM
  uint32_t has_bias;
  uint32_t vectorize_matrix, vec_elements;    // whether 16-byte vectors of the matrix are aligned; elements in 16 bytes
  uint32_t split_k, k_per_split;              // as in MatmulParams
  FastDivmod by[3], by_image;                 // divide by window.positions, and by image_positions
  uint32_t image_positions, gemms_per_group;  // positions per image; GEMMs per group: one, or one per image
};
