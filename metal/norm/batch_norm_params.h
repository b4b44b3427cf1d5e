#pragma once

#include "lib/row_params.h"

// Columns and rows of a threadgroup's tile in channels-last format.
enum : uint32_t { kRowColumns = 256, kRowChunk = 64 };

// A batch viewed as (images, channels, plane). Reductions process chunks, whose sizes depend only on the shape. Partial
// result s of statistic k of channel c is partial[(k * channels + c) * chunks * fold + s].
struct BatchNormParams {
  RowShape planes;       // the rows of the elementwise passes; one row per plane
  uint32_t row_threads;  // threads per plane in the statistics kernels (see RowGroup)
  uint32_t aligned;      // channels last: whether every row is 16-byte aligned
  uint64_t plane;        // number of elements in one channel of one image
  uint64_t elements;     // number of elements in the batch
  uint32_t images, channels;
  uint32_t chunks;
  uint32_t chunk;  // number of images per chunk
  // A long plane is split into `pieces` pieces of `piece` elements. Each piece is a chunk.
  uint32_t pieces, piece;
  uint32_t fold;  // channels last with few channels: number of short rows that are processed as one wider row
  // Channels last: chunks per span. A span is a range of rows with common statistics, which is the whole batch in
  // batch_norm.
  uint32_t span_chunks;
  uint64_t span_rows;
  // In group_norm, the number of statistics per span, and of channels per statistic. Otherwise, both are 1.
  uint32_t groups, group_channels;
  // In group_norm, the distances between channels and between images, counted in partial results.
  uint32_t channel_slots, image_slots;
  uint32_t train, has_weight, has_bias, has_running;
  float eps, momentum;
};

// Parameters of group_norm by rows. A row is one group of one image: `channels` contiguous planes of `plane` elements.
struct GroupNormParams {
  RowShape shape;
  uint32_t plane, images, groups, channels;  // channels: channels per group
  uint32_t has_weight, has_bias;
  float eps;
};
