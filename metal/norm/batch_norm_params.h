#pragma once

#include "lib/row_params.h"

// Channels innermost: columns and rows of a threadgroup's tile.
enum : uint32_t { kRowColumns = 256, kRowChunk = 64 };

// A batch seen as (images, channels, plane). Reductions run over chunks, a partition that depends on the shape alone;
// slot s of channel c of quantity k lies at partial[(k * channels + c) * chunks * fold + s].
struct BatchNormParams {
  RowShape planes;         // to scale: a row each
  uint32_t team;           // statistics: threads that share one (lib/team.h)
  uint32_t packed;         // channels innermost: every row begins at a multiple of 16 bytes
  uint64_t plane;     // elements of one image and channel
  uint64_t elements;  // of the whole batch
  uint32_t images, channels;
  uint32_t chunks;
  uint32_t chunk;          // images of one chunk
  uint32_t pieces, piece;  // parts of a long plane, a chunk each, and their length; else one part, the whole plane
  uint32_t fold;           // channels innermost: how many rows of a few channels are taken as one wider row,
  uint32_t span_chunks;    // and chunks of one span, the rows that share statistics (batch_norm: all of them)
  uint64_t span_rows;
  uint32_t groups, group_channels;  // statistics of a span, and channels that share one (batch_norm: 1)
  uint32_t channel_slots, image_slots;  // group_norm: slots from channel to channel, and from image to image
  uint32_t train, has_weight, has_bias, has_running;
  float eps, momentum;
};

// One group of channels of one image: `channels` planes of `plane` elements, one after the other, which are a row.
struct GroupNormParams {
  RowShape shape;
  uint32_t plane, images, groups, channels;  // channels of a group
  uint32_t has_weight, has_bias;
  float eps;
};
