// Parameters of conv_gemm_tensor.metal.
#pragma once

#include "conv/params.h"

enum : uint32_t {
  kMaxConvSteps = 64,  // GEMM steps whose offsets fit in the parameters
  kPackPixels = 64,    // tile of conv_pack: pixels, and bytes of each pixel
  kPackBytes = 128,
};

// A grid of pixels, images outermost.
struct ConvGrid {
  uint32_t pitch[3];  // pixels along each dimension
  FastDivmod by[3];   // divide by pitch
};

struct ConvGemmOperand {
  int64_t pitch, step;  // strides of rows and of steps, in elements
};

// out[m, n] = sum over steps and k of left[step][m, k] * right[step][n, k]. One operand's rows are the pixels of
// `grid`, and the other operand's rows are channels.
struct ConvGemmParams {
  ConvGemmOperand left, right;
  int64_t offsets[kMaxConvSteps];  // of each step in the pixels' operand, used instead of `step` if has_offsets
  uint32_t out_image, out_channel, out_stride[3];
  uint32_t M, N, K;
  uint32_t steps, steps_per_split;
  uint32_t pixels_left, has_offsets, has_bias, has_partials;
  uint32_t images, positions[3];  // pixels with a greater index are padding and not stored
  ConvGrid grid;
};

// Copies a tensor to zero-padded pixels with contiguous channels. Pixel i of plane (a, b) along a dimension is the
// source's pixel i * stride + a - padding. The planes split rows by their index modulo the stride of a convolution.
// With fold_taps > 1, a pixel has the channels of several rows that are `fold_dilation` apart.
struct ConvPackParams {
  int64_t image_stride, channel_stride, source_stride[3];
  uint32_t source[3];
  int32_t padding[3], stride[3];
  uint32_t planes[2];  // along the first two dimensions
  uint32_t plane_pixels, pixels;
  uint32_t images, channels, padded_channels, fold_taps, fold_dilation;
  FastDivmod by_plane, by_vectors;  // divide by plane_pixels and by the 16-byte vectors per pixel
  ConvGrid grid;
};
