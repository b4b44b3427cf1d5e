// Parameters of narrow.metal.
#pragma once

#include "conv/params.h"

enum : uint32_t {
  kMaxNarrowOutputs = 4,  // channels
  kMaxNarrowParts = 16,
  kNarrowThreads = 128,  // per threadgroup
  kNarrowRows = 16,      // adjacent outputs of a column that a thread computes
  kNarrowTapBlock = 4,   // adjacent taps of a column that a thread multiplies at a time
  kNarrowTaps = 1024,    // taps that fit in threadgroup memory
};

// One of several convolutions of a launch, which compute different positions of the output (ConvPart).
struct ConvNarrowPart {
  int64_t out, weight;    // offsets of the first output and the first tap, in elements
  int64_t tap_stride[3];  // strides between taps in the weight
  int32_t padding[3];
  uint32_t positions[3], taps[3], tap_step[3];
  FastDivmod by_width;  // divide by positions[2]
};

// Along each dimension, output i reads input i * stride + tap * tap_step - padding. Along columns (dimension 1), stride
// and tap_step are 1. A slice is a plane of taps of one channel.
struct ConvNarrowParams {
  ConvNarrowPart parts[kMaxNarrowParts];
  int64_t image_stride, channel_stride, source_stride[3];  // strides of the source
  int64_t out_image, out_channel, out_stride[3];           // strides of the output
  int64_t weight_output, weight_channel;                   // strides of the weight
  uint32_t source[3], channels;
  int32_t stride[3];
  uint32_t part_count, has_bias;
};
