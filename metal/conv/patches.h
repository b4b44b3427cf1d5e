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
inline ConvPlace place_after(ConvPlace place, thread const ConvWindow& w) {
  if (++place.at[2] == w.positions[2]) {
    place.at[2] = 0;
    if (++place.at[1] == w.positions[1]) {
      place.at[1] = 0;
      if (++place.at[0] == w.positions[0]) place.at[0] = 0, ++place.image;
    }
  }
  return place;
}
struct ConvTap {
  uint channel, at[3];
};
inline ConvTap tap_of(uint row, thread const ConvWindow& w) {
  const uint z = row % w.taps[2], lines = row / w.taps[2];
  const uint y = lines % w.taps[1], planes = lines / w.taps[1];
  return {planes / w.taps[0], {planes % w.taps[0], y, z}};
}

// Runs are of neighbouring places. ACROSS: these are the depth, and taps are the lines.
template <typename T, bool BACKWARD, bool ACROSS>
struct Patches {
  device const T* data;
  constant ConvParams& p;
  ConvWindow w;
  uint places, taps;  // how many
  bool along_depth;

  float at(ConvPlace place, ConvTap tap) const {
    long offset = long(place.image) * p.image_stride + long(tap.channel) * p.channel_stride;
    bool inside = true;
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      const int i = source_index<BACKWARD>(place.at[d], tap.at[d], d, w);
      inside = inside && i >= 0;
      offset += long(i) * p.source_stride[d];
    }
    return inside ? float(data[offset]) : 0.0f;
  }

  METAL_FUNC uint4 run(uint line, uint k) const {
    const uint first = ACROSS ? k : line, tap_index = ACROSS ? min(line, taps - 1) : k;
    ConvPlace place = place_of(min(first, places - 1), w);
    const ConvTap tap = tap_of(tap_index, w);
    uint4 r = uint4(0);
#pragma unroll
    for (uint i = 0; i < 16 / sizeof(T); ++i) {
      const bool inside = first + i < places && tap_index < taps;
      r[i * sizeof(T) / 4] |= element_bits(inside ? T(at(place, tap)) : T(0)) << i * sizeof(T) % 4 * 8;
      place = place_after(place, w);
    }
    return r;
  }
};

// The other factor.
template <typename T>
struct ConvMatrixSource {
  device const T* data;
  ConvMatrix m;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC uint4 run(uint line, uint k) const {
    device const T* from = data + long(min(line, lines - 1)) * m.row_stride;
    uint outer = k / m.inner, inner = k % m.inner;
    uint4 r = uint4(0);
#pragma unroll
    for (uint i = 0; i < 16 / sizeof(T); ++i) {
      const T element = k + i < depth ? from[long(outer) * m.outer_stride + inner] : T(0);
      r[i * sizeof(T) / 4] |= element_bits(element) << i * sizeof(T) % 4 * 8;
      if (++inner == m.inner) inner = 0, ++outer;
    }
    return r;
  }
};
