// The patches that a window cuts out of images, as a factor of a matrix product that is never in memory.
#pragma once

#include "conv/params.h"
#include "lib/tile_product.h"

// Where tap `tap` reads for result `position`, along one dimension; -1 is outside. BACKWARD: where the result is, to
// which a window has carried this position.
template <bool BACKWARD>
inline int source_index(uint position, uint tap, uint d, thread const ConvWindow& w) {
  if (BACKWARD) {
    const int from = int(position) + w.padding[d] - int(tap) * w.dilation[d], at = from / w.stride[d];
    return from >= 0 && at * w.stride[d] == from && at < int(w.source[d]) ? at : -1;
  }
  const int at = int(position) * w.stride[d] - w.padding[d] + int(tap) * w.dilation[d];
  return at >= 0 && at < int(w.source[d]) ? at : -1;
}

// Places [low, high) of a line's `run` from `first` on read within the source's line: place i at `start` + i * `by`.
// For windows that go forward, or by steps of one.
struct ConvRange {
  int start, by;
  uint low, high;
};
template <bool BACKWARD>
inline ConvRange range_of(uint first, uint run, uint tap, thread const ConvWindow& w) {
  const int by = w.stride[2], shift = int(tap) * w.dilation[2], size = int(w.source[2]);
  const int start = BACKWARD ? int(first) + w.padding[2] - shift : int(first) * by - w.padding[2] + shift;
  const uint low = start < 0 ? min(run, uint((by - 1 - start) / by)) : 0;
  const uint high = start < size ? min(run, uint((size - 1 - start) / by + 1)) : 0;
  return {start, by, low, max(low, high)};
}

struct ConvPlace {
  uint image, at[3];
};
inline ConvPlace place_of(uint column, thread const ConvWindow& w) {
  const uint z = column % w.positions[2], lines = column / w.positions[2];
  const uint y = lines % w.positions[1], planes = lines / w.positions[1];
  return {planes / w.positions[0], {planes % w.positions[0], y, z}};
}
struct ConvTap {
  uint channel, at[3];
};
inline ConvTap tap_of(uint row, thread const ConvWindow& w) {
  const uint z = row % w.taps[2], lines = row / w.taps[2];
  const uint y = lines % w.taps[1], planes = lines / w.taps[1];
  return {planes / w.taps[0], {planes % w.taps[0], y, z}};
}

// ACROSS: rows are places and columns taps.
template <typename T, bool BACKWARD, bool ACROSS>
struct Patches {
  device const T* data;
  constant ConvParams& p;
  ConvWindow w;
  uint places, taps;  // how many

  float at(ConvPlace place, ConvTap tap) const {
    long offset = long(place.image) * p.image_stride + long(tap.channel) * p.channel_stride;
    bool inside = true;
    for (uint d = 0; d < 3; ++d) {
      const int i = source_index<BACKWARD>(place.at[d], tap.at[d], d, w);
      inside = inside && i >= 0;
      offset += long(i) * p.source_stride[d];
    }
    return inside ? float(data[offset]) : 0.0f;
  }

#if MPSX_VECTOR_BYTES
  // The threads of the group are a multiple of the places, of which each thread has one.
  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
    const uint across = ACROSS ? height : width, down = ACROSS ? width : height;
    const uint mine = g.index % across, place_index = (ACROSS ? row : column) + mine;
    const ConvPlace place = place_of(min(place_index, places - 1), w);
    for (uint k = g.index / across; k < down; k += g.count / across) {
      const uint tap_index = (ACROSS ? column : row) + k;
      const bool inside = place_index < places && tap_index < taps;
      to[ACROSS ? mine * stride + k : k * stride + mine] = inside ? at(place, tap_of(tap_index, w)) : 0.0f;
    }
  }
#else
  // One tap of `count` places from `place` on, which are `step` apart in `to`.
  void line(ConvTap tap, uint place, uint count, threadgroup float* to, uint step) const {
    while (count > 0) {
      const ConvPlace first = place_of(place, w);
      const uint run = min(count, w.positions[2] - first.at[2]);
      const int z = source_index<BACKWARD>(first.at[0], tap.at[0], 0, w);
      const int y = source_index<BACKWARD>(first.at[1], tap.at[1], 1, w);
      if (z < 0 || y < 0) {
        for (uint i = 0; i < run; ++i) to[ulong(i) * step] = 0.0f;
      } else {
        device const T* from = data + (long(first.image) * p.image_stride + long(tap.channel) * p.channel_stride +
                                       long(z) * p.source_stride[0] + long(y) * p.source_stride[1]);
        along(tap, first.at[2], run, from, to, step);
      }
      place += run;
      count -= run;
      to += ulong(run) * step;
    }
  }
  // Within one line of the source.
  void along(ConvTap tap, uint first, uint run, device const T* from, threadgroup float* to, uint step) const {
    const long apart = p.source_stride[2];
    if (BACKWARD && w.stride[2] != 1) {
      for (uint i = 0; i < run; ++i) {
        const int x = source_index<BACKWARD>(first + i, tap.at[2], 2, w);
        to[ulong(i) * step] = x >= 0 ? float(from[long(x) * apart]) : 0.0f;
      }
      return;
    }
    const ConvRange r = range_of<BACKWARD>(first, run, tap.at[2], w);
    for (uint i = 0; i < r.low; ++i) to[ulong(i) * step] = 0.0f;
    device const T* source = from + long(r.start) * apart;
    if (step == 1 && r.by == 1 && apart == 1) {
      MPSX_VECTORIZE
      for (uint i = r.low; i < r.high; ++i) to[i] = float(source[i]);
    } else {
      for (uint i = r.low; i < r.high; ++i) to[ulong(i) * step] = float(source[long(i) * r.by * apart]);
    }
    for (uint i = r.high; i < run; ++i) to[ulong(i) * step] = 0.0f;
  }
  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread) const {
    const uint place = ACROSS ? row : column, tap = ACROSS ? column : row;
    const uint across = ACROSS ? height : width, down = ACROSS ? width : height;
    const uint inside = place < places ? min(across, places - place) : 0;
    const uint step = ACROSS ? stride : 1, next = ACROSS ? 1 : stride;
    for (uint k = 0; k < down; ++k) {
      threadgroup float* target = to + ulong(k) * next;
      const uint filled = tap + k < taps ? inside : 0;
      if (filled > 0) line(tap_of(tap + k, w), place, filled, target, step);
      for (uint i = filled; i < across; ++i) target[ulong(i) * step] = 0.0f;
    }
  }
#endif
};

// The other factor.
template <typename T>
struct ConvMatrixSource {
  device const T* data;
  ConvMatrix m;
  uint rows, columns;

  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
#if MPSX_VECTOR_BYTES
    for (uint i = g.index; i < height * width; i += g.count) {
      const uint r = i / width, c = i % width, k = column + c;
      const bool inside = row + r < rows && k < columns;
      const long offset = long(row + r) * m.row_stride + long(k / m.inner) * m.outer_stride + k % m.inner;
      to[r * stride + c] = inside ? float(data[offset]) : 0.0f;
    }
#else
    for (uint r = 0; r < height; ++r) {
      threadgroup float* target = to + ulong(r) * stride;
      const uint right = row + r < rows && column < columns ? min(width, columns - column) : 0;
      for (uint c = 0; c < right;) {
        const uint outer = (column + c) / m.inner, inner = (column + c) % m.inner, run = min(right - c, m.inner - inner);
        device const T* from = data + (long(row + r) * m.row_stride + long(outer) * m.outer_stride + inner);
        MPSX_VECTORIZE
        for (uint i = 0; i < run; ++i) target[c + i] = float(from[i]);
        c += run;
      }
      for (uint c = right; c < width; ++c) target[c] = 0.0f;
    }
#endif
  }
};
