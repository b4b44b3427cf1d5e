// Parameters of conv_gemm_tensor.metal.
#pragma once

#include "conv/params.h"

enum : uint32_t {
  kMaxConvSteps = 64,  // maximum number of GEMM steps, whose offsets are stored in the parameters
  kPackPixels = 64,    // size of conv_pack's tile: pixels, and bytes per pixel
  kPackBytes = 128,
};

// A grid of pixels. The outermost dimension, not listed here, is the image.
struct ConvGrid {
  uint32_t pitch[3];  // pixels along each dimension
  FastDivmod by[3];   // divide by pitch
};

struct ConvGemmOperand {
  int64_t pitch, step;  // strides between rows and between steps, in elements
};

// Computes out[m, n] = sum of left[step][m, k] * right[step][n, k] over all steps and k. The rows of one operand are
// the pixels of `grid`, and the rows of the other are channels.
struct ConvGemmParams {
  ConvGemmOperand left, right;
  int64_t offsets[kMaxConvSteps];  // each step's offset in the pixels; replaces `step` if has_offsets
  uint32_t out_image, out_channel, out_stride[3];
  uint32_t M, N, K;
  uint32_t steps, steps_per_split;
  uint32_t pixels_left, has_offsets, has_bias, has_partials;
  uint32_t images, positions[3];  // pixels with greater indices are padding and are not stored
  ConvGrid grid;
};

// Parameters for copying a tensor to zero-padded pixels with contiguous channels. Rows are split into planes by their
// index modulo the convolution's stride: pixel i of plane (a, b) is the source's pixel i * stride + a - padding along
// the first dimension, and likewise with b along the second. If fold_taps > 1, each pixel combines the channels of
// several rows, which are `fold_dilation` apart.
struct ConvPackParams {
  int64_t image_stride, channel_stride, source_stride[3];
  uint32_t source[3];
  int32_t padding[3], stride[3];
  uint32_t planes[2];  // numbers of planes along the first two dimensions
  uint32_t plane_pixels, pixels;
  uint32_t images, channels, padded_channels, fold_taps, fold_dilation;
  FastDivmod by_plane, by_vectors;  // divide by plane_pixels, and by the number of 16-byte vectors per pixel
  ConvGrid grid;
};
