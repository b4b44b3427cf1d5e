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
inline ConvTap tap_of(uint row, ConvWindow w) {
  const uint z = row % w.taps[2], lines = row / w.taps[2];
  const uint y = lines % w.taps[1], planes = lines / w.taps[1];
  return {planes / w.taps[0], {planes % w.taps[0], y, z}};
}

inline uint quotient(uint n, ConvDivisor by) { return (mulhi(n, by.factor) + n) >> by.shift; }
inline ConvPlace place_of(uint column, constant ConvParams& p) {
  const uint lines = quotient(column, p.by[2]), planes = quotient(lines, p.by[1]), image = quotient(planes, p.by[0]);
  constant uint* size = p.window.positions;
  return {image, {planes - image * size[0], lines - planes * size[1], column - lines * size[2]}};
}

// A line of either kind of patches: a place, or a tap and a channel.
template <typename T>
struct PatchLine {
  device const T* data;
  int at[3];  // in the source; may be outside
};

// Patches as lines of places along (tap, channel), by the table that conv_taps makes.
template <typename T>
struct Patches {
  typedef PatchLine<T> Line;
  device const T* data;
  device const ConvTapOffset* taps;
  constant ConvParams& p;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC Line at(uint line) const {
    const ConvPlace place = place_of(min(line, lines - 1), p);
    Line l = {data + long(place.image) * p.image_stride, {0, 0, 0}};
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      l.at[d] = int(place.at[d]) * p.window.stride[d] - p.window.padding[d];
      l.data += long(l.at[d]) * p.source_stride[d];
    }
    if (line >= lines) l.at[0] = INT_MIN / 2;  // outside at every tap
    return l;
  }
  METAL_FUNC uint4 run(Line l, uint k) const {
    if (k >= depth) return uint4(0);
    const ConvTapOffset tap = taps[k / (16 / sizeof(T))];
    bool inside = true;
#pragma unroll
    for (uint d = 0; d < 3; ++d) inside = inside && uint(l.at[d] + tap.at[d]) < p.window.source[d];
    return inside ? *(device const uint4*)(l.data + tap.offset) : uint4(0);
  }
};

// The same as lines of (tap, channel) along the places.
template <typename T>
struct PatchColumns {
  typedef PatchLine<T> Line;
  device const T* data;
  constant ConvParams& p;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC Line at(uint line) const {
    const ConvTap tap = tap_of(line / p.padded, p.window);
    Line l = {data + line % p.padded, {0, 0, 0}};
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      l.at[d] = int(tap.at[d]) * p.window.dilation[d] - p.window.padding[d];
      l.data += long(l.at[d]) * p.source_stride[d];
    }
    if (line >= lines) l.at[0] = INT_MIN / 2;  // outside at every place
    return l;
  }
  METAL_FUNC uint4 run(Line l, uint k) const {
    if (k >= depth) return uint4(0);
    const ConvPlace place = place_of(k, p);
    long offset = long(place.image) * p.image_stride;
    bool inside = true;
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      const int step = int(place.at[d]) * p.window.stride[d];
      inside = inside && uint(l.at[d] + step) < p.window.source[d];
      offset += long(step) * p.source_stride[d];
    }
    return inside ? *(device const uint4*)(l.data + offset) : uint4(0);
  }
};

// Channels along the places of all images, which lie in runs of 16 bytes.
template <typename T>
struct ImageLines {
  typedef uint Line;
  device const T* data;
  long line_stride, image_stride;
  uint places;  // of an image
  ConvDivisor by;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC Line at(uint line) const { return line; }
  METAL_FUNC uint4 run(Line line, uint k) const {
    if (line >= lines || k >= depth) return uint4(0);
    const uint image = quotient(k, by);
    return *(device const uint4*)(data + (long(line) * line_stride + long(image) * image_stride + k - image * places));
  }
};
