#pragma once

#include "lib/row_params.h"

// Channels last: columns and rows of a threadgroup's tile.
enum : uint32_t { kRowColumns = 256, kRowChunk = 64 };

// A batch seen as (images, channels, plane). Reductions run over chunks, a partition that depends on the shape alone.
// Slot s of channel c of quantity k is partial[(k * channels + c) * chunks * fold + s].
struct BatchNormParams {
  RowShape planes;       // elementwise passes: one row per plane
  uint32_t row_threads;  // statistics: threads per plane (RowGroup)
  uint32_t aligned;      // channels last: every row starts at a multiple of 16 bytes
  uint64_t plane;        // elements of one channel of one image
  uint64_t elements;     // of the whole batch
  uint32_t images, channels;
  uint32_t chunks;
  uint32_t chunk;          // images of one chunk
  uint32_t pieces, piece;  // a long plane is split into pieces, one chunk each: their number (or 1) and length
  uint32_t fold;           // channels last: rows of a few channels that are treated as one wider row
  uint32_t span_chunks;    // channels last: chunks of a span, the rows that share statistics (batch_norm: all rows)
  uint64_t span_rows;
  uint32_t groups, group_channels;      // group_norm: statistics of a span, and channels that share one; else 1
  uint32_t channel_slots, image_slots;  // group_norm: slots from channel to channel, and from image to image
  uint32_t train, has_weight, has_bias, has_running;
  float eps, momentum;
};

// group_norm of rows: `channels` planes of `plane` elements, the group's channels of one image, are contiguous.
struct GroupNormParams {
  RowShape shape;
  uint32_t plane, images, groups, channels;  // channels of a group
  uint32_t has_weight, has_bias;
  float eps;
};
