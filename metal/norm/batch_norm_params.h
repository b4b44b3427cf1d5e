#pragma once

#include "lib/row_params.h"

// Channels last: columns and rows of a threadgroup's tile.
enum : uint32_t { kRowColumns = 256, kRowChunk = 64 };

// A batch viewed as (images, channels, plane). Reductions work on chunks, which depend only on the shape. partial[(k *
// channels + c) * chunks * fold + s] is partial result s of statistic k of channel c.
struct BatchNormParams {
  RowShape planes;       // rows of the elementwise passes, one per plane
  uint32_t row_threads;  // threads per plane in the statistics kernels (see RowGroup)
  uint32_t aligned;      // whether every row is 16-byte aligned (channels last)
  uint64_t plane;        // elements in one channel of one image
  uint64_t elements;     // elements in the whole batch
  uint32_t images, channels;
  uint32_t chunks;
  uint32_t chunk;  // images per chunk
  // Number of pieces of a plane and their length; a long plane is split into several pieces, one per chunk.
  uint32_t pieces, piece;
  uint32_t fold;  // number of short rows that are treated as one wider row (channels last with few channels)
  // Channels last: chunks per span. A span is a range of rows that share statistics; in batch_norm, it is the batch.
  uint32_t span_chunks;
  uint64_t span_rows;
  // In group_norm, statistics per span and channels per statistic; otherwise both are 1.
  uint32_t groups, group_channels;
  // In group_norm, distance between channels and between images, in partial results.
  uint32_t channel_slots, image_slots;
  uint32_t train, has_weight, has_bias, has_running;
  float eps, momentum;
};

// group_norm by rows. A row is one group of one image: `channels` contiguous planes of `plane` elements.
struct GroupNormParams {
  RowShape shape;
  uint32_t plane, images, groups, channels;  // channels: channels per group
  uint32_t has_weight, has_bias;
  float eps;
};
