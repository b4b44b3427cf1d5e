#pragma once

#include "lib/row_params.h"

// Channels last: columns and rows of a threadgroup's tile.
enum : uint32_t { kRowColumns = 256, kRowChunk = 64 };

// A batch viewed as (images, channels, plane). Reductions run over chunks, a partition that depends only on the
// shape. Partial result s of statistic k of channel c is partial[(k * channels + c) * chunks * fold + s].
struct BatchNormParams {
  RowShape planes;       // elementwise passes: one row per plane
  uint32_t row_threads;  // statistics: threads per plane (RowGroup)
  uint32_t aligned;      // channels last: every row is 16-byte aligned
  uint64_t plane;        // elements in one channel of one image
  uint64_t elements;     // elements in the whole batch
  uint32_t images, channels;
  uint32_t chunks;
  uint32_t chunk;          // images per chunk
  uint32_t pieces, piece;  // a long plane is split into pieces, one per chunk: their number (otherwise 1) and length
  uint32_t fold;           // channels last: number of short rows (few channels) that are treated as one wider row
  uint32_t span_chunks;    // channels last: chunks per span, the rows that share statistics (batch_norm: all rows)
  uint64_t span_rows;
  uint32_t groups, group_channels;      // group_norm: statistics per span, and channels per statistic; otherwise 1
  uint32_t channel_slots, image_slots;  // group_norm: stride between channels, and between images, in slots
  uint32_t train, has_weight, has_bias, has_running;
  float eps, momentum;
};

// group_norm over rows. A row has `channels` contiguous planes of `plane` elements: one group of one image.
struct GroupNormParams {
  RowShape shape;
  uint32_t plane, images, groups, channels;  // channels: per group
  uint32_t has_weight, has_bias;
  float eps;
};
