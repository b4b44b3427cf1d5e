// How the kernels of batch_norm walk over a batch: planes, or rows of channels (channels_last).
#pragma once

#include "lib/instantiate.h"
#include "lib/row.h"
#include "norm/batch_norm_params.h"

// One chunk of a channel: `length` elements of each of the images [first, last).
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

// The teams of a threadgroup that take the images of a chunk in turn: this thread's, whose row is the first image.
inline Team chunk_team(constant BatchNormParams& p, PlaneChunk s, GroupThread g) {
  GroupThread first = g;
  first.group = uint3(0);
  Team team = team_of(s.last, p.team, first);
  team.row = min(s.first + team.row, s.last);
  return team;
}
inline uint chunk_teams(Team team, GroupThread g) { return team.whole ? 1 : g.count / team.count; }
// How far an image's elements are beyond a multiple of 16 bytes, modulo 2^32.
inline uint place_of(constant BatchNormParams& p, PlaneChunk s, uint image) {
  return p.planes.offset + uint(s.offset + (image - s.first) * s.step);
}

// With channels innermost a thread owns a tile of neighbouring columns and walks down a chunk of rows. The batch's last
// row may be shorter: it has the first `tail` columns of the tile.
struct ColumnTile {
  uint column, count, rows, tail, span;
  ulong offset, width;
};
inline ColumnTile column_tile(constant BatchNormParams& p, uint2 at) {
  const uint width = p.channels * p.fold, column = at.x * kColumnTile, count = min(uint(kColumnTile), width - column);
  const uint span = at.y / p.span_chunks;
  const ulong first = ulong(at.y - span * p.span_chunks) * kRowChunk, row = span * p.span_rows + first;
  const uint rows = uint(min(ulong(kRowChunk), p.span_rows - min(first, ulong(p.span_rows))));
  const uint rest = at.y + 1 == p.chunks ? uint(p.elements - (row + rows) * width) : 0;
  const uint tail = min(rest - min(rest, column), count);
  return {column, count, rows, tail, span, row * width + column, width};
}
// Column i of a tile as a tile of its own, for those that are not full.
inline ColumnTile single_column(ColumnTile t, uint i) {
  return {t.column + i, 1, t.rows, t.tail > i ? 1u : 0u, t.span, t.offset + i, t.width};
}

// Where column j's partial result goes.
inline ulong slot_of(constant BatchNormParams& p, uint column, uint chunk, uint quantity) {
  const uint f = column / p.channels, c = column - f * p.channels;
  return (ulong(quantity) * p.channels + c) * p.chunks * p.fold + ulong(chunk) * p.fold + f;
}

// Calls FUNCTION<N>(tile, …) for a full tile, whose values registers hold, or column by column.
#define MPSX_COLUMN_TILE(FUNCTION, ...)                                                                          \
  const ColumnTile t = column_tile(p, at);                                                                       \
  if (t.count == kColumnTile) return FUNCTION<kColumnTile>(t, __VA_ARGS__);                                      \
  for (uint i = 0; i < t.count; ++i) FUNCTION<1>(single_column(t, i), __VA_ARGS__);
