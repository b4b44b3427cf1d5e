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

// Patches as lines of places along (channel, tap), by the table that conv_taps makes. BACKWARD: by the steps of a
// window, between which there is nothing.
template <typename T, bool BACKWARD>
struct Patches {
  enum : uint { kLinesFirst = 1 };
  device const T* data;
  device const ConvTapOffset* taps;
  constant ConvParams& p;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC uint4 run(uint line, uint k) const {
    const ConvWindow w = p.window;
    const ConvPlace place = place_of(min(line, lines - 1), w);
    device const T* image = data + long(place.image) * p.image_stride;
    int at[3];
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      at[d] = BACKWARD ? int(place.at[d]) + w.padding[d] : int(place.at[d]) * w.stride[d] - w.padding[d];
      if (!BACKWARD) image += long(at[d]) * p.source_stride[d];
    }
    uint4 r = uint4(0);
#pragma unroll
    for (uint i = 0; i < 16 / sizeof(T); ++i) {
      const ConvTapOffset tap = taps[min(k + i, depth - 1)];
      long offset = tap.offset;
      bool inside = line < lines && k + i < depth;
#pragma unroll
      for (uint d = 0; d < 3; ++d) {
        int x = at[d] + tap.at[d];
        if (BACKWARD) {
          const int step = x / w.stride[d];
          inside = inside && step * w.stride[d] == x;
          offset += long(step) * p.source_stride[d];
          x = step;
        }
        inside = inside && uint(x) < w.source[d];
      }
      const T element = inside ? image[offset] : T(0);
      r[i * sizeof(T) / 4] |= element_bits(element) << i * sizeof(T) % 4 * 8;
    }
    return r;
  }
};

// The same as lines of (channel, tap) along the places.
template <typename T>
struct PatchColumns {
  enum : uint { kLinesFirst = 0 };
  device const T* data;
  constant ConvParams& p;
  uint lines, depth;
  bool along_depth;

  METAL_FUNC uint4 run(uint line, uint k) const {
    const ConvWindow w = p.window;
    const ConvTap tap = tap_of(min(line, lines - 1), w);
    device const T* channel = data + long(tap.channel) * p.channel_stride;
    ConvPlace place = place_of(min(k, depth - 1), w);
    uint4 r = uint4(0);
#pragma unroll
    for (uint i = 0; i < 16 / sizeof(T); ++i) {
      bool inside = line < lines && k + i < depth;
      long offset = long(place.image) * p.image_stride;
#pragma unroll
      for (uint d = 0; d < 3; ++d) {
        const int x = source_index<false>(place.at[d], tap.at[d], d, w);
        inside = inside && x >= 0;
        offset += long(x) * p.source_stride[d];
      }
      const T element = inside ? channel[offset] : T(0);
      r[i * sizeof(T) / 4] |= element_bits(element) << i * sizeof(T) % 4 * 8;
      place = place_after(place, w);
    }
    return r;
  }
};

// The gradient of the result as the left factor of the weight's gradient: lines of channels along the places.
template <typename T>
struct ConvMatrixSource {
  enum : uint { kLinesFirst = 0 };
  device const T* data;
  ConvMatrix m;
  uint lines, depth;
  bool wide;  // then a run is within an image
  bool along_depth;

  METAL_FUNC uint4 run(uint line, uint k) const {
    uint4 r = uint4(0);
    if (line >= lines || k >= depth) return r;
    uint outer = k / m.inner, inner = k % m.inner;
    device const T* from = data + long(line) * m.row_stride;
    if (wide) return *(device const uint4*)(from + (long(outer) * m.outer_stride + inner));
#pragma unroll
    for (uint i = 0; i < 16 / sizeof(T); ++i) {
      const T element = k + i < depth ? from[long(outer) * m.outer_stride + inner] : T(0);
      r[i * sizeof(T) / 4] |= element_bits(element) << i * sizeof(T) % 4 * 8;
      if (++inner == m.inner) inner = 0, ++outer;
    }
    return r;
  }
};
