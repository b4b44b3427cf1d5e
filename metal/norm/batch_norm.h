// How the kernels of batch_norm walk over a batch: planes, or rows of channels (channels_last).
#pragma once

#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/types.h"
#include "norm/batch_norm_params.h"

// Neighbouring columns of one thread: loops to vectorise on a CPU, one element on a GPU. kColumns in
// src/ops/norm/batch_norm.cpp.
constexpr constant uint kColumns = MPSX_VECTOR_BYTES ? 1 : 256;

// What one chunk of a channel holds: `length` elements of each of the images [first, last).
struct PlaneChunk {
  uint first, last, length;
  ulong offset, step;  // of the first image's elements; from image to image
};
inline PlaneChunk plane_chunk(constant BatchNormParams& p, uint chunk, uint channel) {
  const bool whole = p.pieces == 1;
  const uint first = whole ? chunk * p.chunk : chunk / p.pieces;
  const uint last = whole ? min(first + p.chunk, p.images) : first + 1;
  const ulong start = whole ? 0ul : ulong(chunk % p.pieces) * p.piece, step = p.plane * p.channels;
  return {first, last, uint(min(ulong(p.piece), p.plane - start)), first * step + channel * p.plane + start, step};
}

// What one thread owns of a chunk of rows: `count` columns of `rows` rows, and of the `tail` columns that the batch's
// last, shorter row has of them.
struct ColumnTile {
  uint column, count, rows, tail, span;
  ulong offset, width;
};
inline ColumnTile column_tile(constant BatchNormParams& p, uint2 at) {
  const uint width = p.channels * p.fold, column = at.x * kColumns, count = min(kColumns, width - column);
  const uint span = at.y / p.span_chunks;
  const ulong first = ulong(at.y - span * p.span_chunks) * p.chunk, row = span * p.span_rows + first;
  const uint rows = uint(min(ulong(p.chunk), p.span_rows - min(first, ulong(p.span_rows))));
  const uint rest = at.y + 1 == p.chunks ? uint(p.elements - (row + rows) * width) : 0;
  const uint tail = rest > column ? min(rest - column, count) : 0;
  return {column, count, rows, tail, span, row * width + column, width};
}

// Where column j's partial result goes.
inline ulong slot_of(constant BatchNormParams& p, uint column, uint chunk, uint quantity) {
  const uint f = column / p.channels, c = column - f * p.channels;
  return (ulong(quantity) * p.channels + c) * p.chunks * p.fold + ulong(chunk) * p.fold + f;
}
