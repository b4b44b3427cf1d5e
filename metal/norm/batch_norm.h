// How the batch_norm kernels traverse a batch: by planes or, in channels-last format, by rows of channels.
#pragma once

#include "lib/columns.h"
#include "lib/instantiate.h"
#include "norm/batch_norm_params.h"
#include "norm/normalized.h"

// One chunk of a channel: `length` elements from each of the images [first, last).
struct PlaneChunk {
  uint first, last, length;
  ulong offset, step;  // offset of the first image's elements; stride between images
};
inline PlaneChunk plane_chunk(constant BatchNormParams& p, uint chunk, uint channel) {
  const bool whole = p.pieces == 1;
  const uint first = whole ? chunk * p.chunk : chunk / p.pieces;
  const uint last = whole ? min(first + p.chunk, p.images) : first + 1;
  const ulong start = whole ? 0ul : ulong(chunk % p.pieces) * p.piece, step = p.plane * p.channels;
  return {first, last, uint(min(ulong(p.piece), p.plane - start)), first * step + channel * p.plane + start, step};
}

// Distributes the images of a chunk over the threadgroup's row groups. Sets `row` to the first image that this thread
// processes.
inline RowGroup chunk_row_group(constant BatchNormParams& p, PlaneChunk s, GroupThread g) {
  GroupThread first = g;
  first.group = uint3(0);
  RowGroup group = row_group(s.last, p.row_threads, first);
  group.row = min(s.first + group.row, s.last);
  return group;
}
// Returns how many elements an image's first element is past a 16-byte boundary, modulo 2^32.
inline uint image_offset(constant BatchNormParams& p, PlaneChunk s, uint image) {
  return p.planes.offset + uint(s.offset + (image - s.first) * s.step);
}

// In channels-last format, a threadgroup processes a tile of columns over a chunk of rows. The last row of the batch
// may be incomplete and contain only the first `tail` columns of the tile.
struct ColumnTile {
  uint column, count, rows, tail, span, spans;
  ulong offset, width;
};
inline ColumnTile column_tile(constant BatchNormParams& p, uint2 index) {
  const uint width = p.channels * p.fold, column = index.x * kRowColumns;
  const uint count = min(uint(kRowColumns), width - column), span = index.y / p.span_chunks;
  const ulong first = ulong(index.y - span * p.span_chunks) * kRowChunk, row = span * p.span_rows + first;
  const uint rows = uint(min(ulong(kRowChunk), p.span_rows - min(first, ulong(p.span_rows))));
  const uint rest = index.y + 1 == p.chunks ? uint(p.elements - (row + rows) * width) : 0;
  const uint tail = min(rest - min(rest, column), count);
  return {column, count, rows, tail, span, p.chunks / p.span_chunks, row * width + column, width};
}

// Returns whether to fold the mean into the bias in (x - mean) * scale + bias, as PyTorch always does. This is
// necessary if x - mean may overflow, or if infinities must yield NaN as in PyTorch.
inline bool must_fold(float mean, float scale) { return !(fabs(mean) < 0x1p100f && fabs(scale) <= FLT_MAX); }

// Returns the index of a partial result of a column.
inline ulong slot_of(constant BatchNormParams& p, uint column, uint chunk, uint quantity) {
  const uint f = column / p.channels, c = column - f * p.channels;
  return (ulong(quantity) * p.channels + c) * p.chunks * p.fold + ulong(chunk) * p.fold + f;
}

enum : uint { kColumnVector = 4 };
// Makes two arrays available as a matrix that columns.h can reduce. f computes the operands from a pair of elements.
template <typename T, typename F>
inline PairMatrix<T, F> tile_matrix(device const T* a, device const T* b, ColumnTile t, F f) {
  return {a + t.offset, b + t.offset, t.width, f};
}
// Computes Q sums for each column of a tile (see columns.h) and stores them in result[q * kColumnTile + column].
template <uint Q, typename Matrix>
inline void reduce_tile(threadgroup float* result, threadgroup float* scratch, Matrix matrix, ColumnTile t,
                        constant BatchNormParams& p, GroupThread g) {
  column_reduce<CombineSum, kColumnVector, Q>(result, scratch, matrix, 0, t.rows, t.count, p.aligned, g);
  for (uint c = g.index; c < t.tail; c += g.count)
    for (uint q = 0; q < Q; ++q) result[q * kColumnTile + c] += matrix.row(t.rows).scalar(c, q);
}
template <typename T, typename Matrix>
inline void store_tile(device T* out, Matrix matrix, ColumnTile t, constant BatchNormParams& p, GroupThread g) {
  device T* to = out + t.offset;
  column_store<kColumnVector>(to, t.width, matrix, 0, t.rows, t.count, p.aligned, g);
  for (uint c = g.index; c < t.tail; c += g.count) to[t.rows * t.width + c] = T(matrix.row(t.rows).scalar(c, 0));
}
// Copies K coefficients for each column of a tile from [K][span][width] to [K][kColumnTile].
template <uint K>
inline void load_coefficients(threadgroup float* to, device const float* coefficients, ColumnTile t, GroupThread g) {
  device const float* from = coefficients + (t.span * t.width + t.column);
  const ulong pitch = t.spans * t.width;
  for (uint k = 0; k < K; ++k)
    for (uint c = g.index; c < t.count; c += g.count) to[k * kColumnTile + c] = from[k * pitch + c];
  tg_barrier();
}
