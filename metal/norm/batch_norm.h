// How the kernels of batch_norm walk over a batch: planes, or rows of channels (channels_last).
#pragma once

#include "lib/columns.h"
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

// With channels innermost a threadgroup owns a tile of columns and walks down a chunk of rows. The batch's last row may
// be shorter: it has the first `tail` columns of the tile.
struct ColumnTile {
  uint column, count, rows, tail, span, spans;
  ulong offset, width;
};
inline ColumnTile column_tile(constant BatchNormParams& p, uint2 at) {
  const uint width = p.channels * p.fold, column = at.x * kRowColumns, count = min(uint(kRowColumns), width - column);
  const uint span = at.y / p.span_chunks;
  const ulong first = ulong(at.y - span * p.span_chunks) * kRowChunk, row = span * p.span_rows + first;
  const uint rows = uint(min(ulong(kRowChunk), p.span_rows - min(first, ulong(p.span_rows))));
  const uint rest = at.y + 1 == p.chunks ? uint(p.elements - (row + rows) * width) : 0;
  const uint tail = min(rest - min(rest, column), count);
  return {column, count, rows, tail, span, p.chunks / p.span_chunks, row * width + column, width};
}

// Whether the mean joins the bias of (x - mean) * scale + bias, as PyTorch's always does: the difference may overflow
// near the largest float, and infinities then give NaN as they do there.
inline bool must_fold(float mean, float scale) { return !(fabs(mean) < 0x1p100f && fabs(scale) <= FLT_MAX); }

// Of a gradient and the input beside it.
struct First {
  float at(Pair v) const { return v.a; }
};
struct FirstTimesDistance {
  float mean;
  float at(Pair v) const { return v.a * (v.b - mean); }
};

// Where column j's partial result goes.
inline ulong slot_of(constant BatchNormParams& p, uint column, uint chunk, uint quantity) {
  const uint f = column / p.channels, c = column - f * p.channels;
  return (ulong(quantity) * p.channels + c) * p.chunks * p.fold + ulong(chunk) * p.fold + f;
}

// The rows of such a tile, of two arrays. F says what becomes of their elements and of F::kFacts numbers that the
// threadgroup knows about each column: facts[k * kFoldColumns + column].
enum : uint { kColumnPack = 4 };
template <typename T, typename F>
struct ChannelLine {
  template <uint N>
  struct Raw {
    Pack<T, N> x, y;
    float facts[N][F::kFacts];
  };
  device const T* x;
  device const T* y;
  threadgroup const float* facts;
  F f;
  template <uint N>
  Raw<N> fetch(uint c) const {
    Raw<N> raw;
    raw.x = load_pack<N>(x + c), raw.y = load_pack<N>(y + c);
#pragma unroll
    for (uint i = 0; i < N * F::kFacts; ++i)
      raw.facts[i / F::kFacts][i % F::kFacts] = facts[i % F::kFacts * kFoldColumns + c + i / F::kFacts];
    return raw;
  }
  template <uint N>
  float value(Raw<N> raw, uint j, uint q) const {
    return f.at(float(raw.x.v[j]), float(raw.y.v[j]), raw.facts[j], q);
  }
  float one(uint c, uint q) const {
    float own[F::kFacts];
#pragma unroll
    for (uint k = 0; k < F::kFacts; ++k) own[k] = facts[k * kFoldColumns + c];
    return f.at(float(x[c]), float(y[c]), own, q);
  }
};
template <typename T, typename F>
struct ChannelLines {
  typedef ChannelLine<T, F> Line;
  device const T* x;
  device const T* y;
  ulong width;
  threadgroup const float* facts;
  F f;
  Line line(ulong i) const { return {x + i * width, y + i * width, facts, f}; }
};

// Sums of Q quantities over a tile: result[q * kFoldColumns + column].
template <uint Q, typename Lines>
inline void fold_tile(threadgroup float* result, threadgroup float* scratch, Lines lines, ColumnTile t,
                      constant BatchNormParams& p, GroupThread g) {
  if (p.packed)
    fold_columns<CombineSum, kColumnPack, Q>(result, scratch, lines, 0, t.rows, t.count, g);
  else
    fold_columns<CombineSum, 1, Q>(result, scratch, lines, 0, t.rows, t.count, g);
  tg_barrier();
  for (uint c = g.index; c < t.tail; c += g.count)
    for (uint q = 0; q < Q; ++q) result[q * kFoldColumns + c] += lines.line(t.rows).one(c, q);
}
template <typename T, typename Lines>
inline void store_tile(device T* out, Lines lines, ColumnTile t, constant BatchNormParams& p, GroupThread g) {
  if (p.packed)
    store_columns<kColumnPack>(out, t.width, lines, 0, t.rows, t.count, g);
  else
    store_columns<1>(out, t.width, lines, 0, t.rows, t.count, g);
  for (uint c = g.index; c < t.tail; c += g.count) out[t.rows * t.width + c] = T(lines.line(t.rows).one(c, 0));
}
// The numbers of a tile's columns, out of [K][span][width].
template <uint K>
inline void load_facts(threadgroup float* facts, device const float* coefficients, ColumnTile t, GroupThread g) {
  device const float* from = coefficients + (t.span * t.width + t.column);
  const ulong pitch = t.spans * t.width;
  for (uint k = 0; k < K; ++k)
    for (uint c = g.index; c < t.count; c += g.count) facts[k * kFoldColumns + c] = from[k * pitch + c];
  tg_barrier();
}
