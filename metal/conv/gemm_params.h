// Parameters of conv_gemm_tensor.metal.
#pragma once

#include "conv/params.h"

enum : uint32_t {
  kMaxConvSteps = 64,  // maximum numbers of GEMM steps and parts, which are stored in the parameters
  kMaxConvParts = 16,
  kPackPixels = 64,  // size of conv_pack's tile: pixels, and bytes per pixel
  kPackBytes = 128,
  kClearPixels = 256,  // pixels whose padding a threadgroup clears
  kWeightTile = 3072,  // sums in the threadgroup memory of a weight gradient's reduction
};

// A grid of pixels. The outermost dimension, not listed here, is the image.
struct ConvGrid {
  uint32_t pitch[3];  // pixels along each dimension
  FastDivmod by[3];   // divide by pitch
};

struct ConvSize {
  uint32_t size[3];
};
// The layout of the result: strides in elements.
struct ConvOutput {
  uint32_t images, image_stride, channel_stride, stride[3];
  ConvGrid grid;
};

// One of several convolutions of a launch. Parts differ in their taps and in where their operands and outputs start.
struct ConvGemmPart {
  int64_t left, right, out;       // offsets in elements
  uint32_t first_step, steps, K;  // the rows of its steps start at rows[first_step]
  uint32_t first_channel;         // of the bias
  // The matrices that contain the operands of all steps (metal/lib/multiply_steps.h). Step i reads the right matrix
  // from row i * right_row_step and column i * right_column_step on.
  int64_t right_pitch;
  uint32_t left_rows, right_rows, right_width, right_row_step, right_column_step;
  ConvSize positions;  // pixels with greater indices are padding and are not stored
};

// Several groups of channels that one matrix combines: outputs and channels of each group, channels of all groups, and
// the layout of the matrix's rows. The blocks off the diagonal are zero.
struct ConvGroups {
  uint32_t outputs, channels, matrix_channels, padded_channels, fold_taps;
};

// Computes out[m, n] = sum of left[step][m, k] * right[step][n, k] over all steps and k. The rows of `left` are the
// pixels of `grid`, and the rows of `right` are channels.
struct ConvGemmParams {
  ConvGemmPart parts[kMaxConvParts];
  uint32_t rows[kMaxConvSteps];  // each step's first row of `left`; replaces step * left_step if has_rows
  int64_t left_pitch;
  uint32_t left_step;  // in rows
  uint32_t M, N, part_count;
  uint32_t steps_per_split;
  uint32_t has_rows, has_bias, has_partials;
  ConvOutput output;
  ConvGroups group;  // read by conv_gemm_tensor_grouped
};

// The layout of a channels-last tensor that is read without copying it. Dimensions are in the order of PixelMatrix
// (metal/lib/multiply_pixels.h): x, y, z, images.
struct ConvPixels {
  int64_t stride[4];
  uint32_t size[4], channels;
};
// The boxes of outputs that tile a convolution, and the pixels of the input that each tap reads: output i along a
// dimension reads pixel i * stride + first[tap], which may be in the padding.
struct ConvBoxes {
  ConvGrid grid;  // indices of boxes
  uint32_t log2_size[4], stride[4];
  int32_t first[kMaxConvSteps][3];
};

// Parameters of conv_pixels_tensor.metal, whose steps are taps. If the rows of the weight are channels of the input,
// not outputs, gemm.rows contains the column of each step.
struct ConvPixelParams {
  ConvGemmParams gemm;
  ConvPixels source;
  ConvBoxes boxes;
};

// Parameters of conv_weight_grad_tensor.metal. For each matrix of groups and each step, a GEMM computes
// sums[m, n] = sum of grad[window][m] * source[window][offset + n] over all windows. A step covers the taps of a row,
// and n is a pair of a tap and a channel. If in_place is set, there is a single step for all taps, and the windows are
// the outputs of all boxes.
struct ConvWeightGradParams {
  int64_t grad_matrix, grad_pitch, source_matrix, source_pitch;  // strides between matrices and windows, in elements
  uint32_t offsets[kMaxConvSteps];                               // of the steps, in pixels
  uint32_t M, N, windows, windows_per_split, splits, steps, matrices;
  // conv_weight_grad_reduce_tensor also reads the layouts of the columns and the weight. If fold_taps > 1, a pixel's
  // channels come from several rows of taps.
  uint32_t padded_channels, channels, row_taps, fold_taps;  // `channels` of all groups of the matrix
  uint32_t group_outputs, group_channels, taps;
  uint32_t tile_channels, tile_taps, channel_tiles;
  uint32_t split_parts, splits_per_part;  // the sums of the parts are added last
  FastDivmod by_row_taps, by_fold_taps, by_tile_channels, by_tile_taps, by_vectors, by_part_vectors;
  uint32_t has_unused_windows;  // whether some windows start in the padding and compute no output
  int64_t out_stride, channel_stride, tap_stride;
  uint32_t images;
  ConvSize positions;
  ConvGrid grid;
  // Whether `grad` and `source` are channels-last tensors instead of packed copies, and their layouts.
  uint32_t in_place;
  ConvPixels grad, source;
  ConvBoxes boxes;
};

// Where a step's taps start in the weight, and where its rows start in the copy.
struct ConvWeightStep {
  int64_t from, to;
  uint32_t taps, unused;
};

// Parameters for copying a weight to rows of taps and channels, one matrix per step. Several groups are combined into
// one matrix, whose blocks off the diagonal are zero. If fold_taps > 1, a pixel's channels come from several rows.
struct ConvWeightParams {
  ConvWeightStep steps[kMaxConvSteps];
  int64_t group_stride, out_stride, channel_stride, tap_stride, fold_stride;
  uint32_t channels, padded_channels, fold_taps;  // `channels` of all groups of the matrix
  FastDivmod by_channels;
  uint32_t group_outputs, group_channels;
  FastDivmod by_group_channels;
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
  FastDivmod by_plane, by_planes, by_vectors;  // divide by plane_pixels, planes[1], and 16-byte vectors per pixel
  FastDivmod by_channels;
  ConvGrid grid;
  // conv_pack_rows also reads the numbers of vectors of pixels, in all and per row, of tiles, and the divisors.
  uint32_t vectors, row_vectors, source_tiles;
  FastDivmod by_row_vectors, by_source[2], by_stride[2];
};
