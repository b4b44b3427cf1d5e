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

  // Neighbouring threads have neighbouring places, which they work out once.
  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
    const uint across = ACROSS ? height : width, down = ACROSS ? width : height, step = max(g.count / across, 1u);
    for (uint mine = g.index % across; mine < across; mine += g.count) {
      const uint place_index = (ACROSS ? row : column) + mine;
      const ConvPlace place = place_of(min(place_index, places - 1), w);
      for (uint k = g.index / across; k < down; k += step) {
        const uint tap_index = (ACROSS ? column : row) + k;
        const bool inside = place_index < places && tap_index < taps;
        to[ACROSS ? mine * stride + k : k * stride + mine] = inside ? at(place, tap_of(tap_index, w)) : 0.0f;
      }
    }
  }
};

// The other factor.
template <typename T>
struct ConvMatrixSource {
  device const T* data;
  ConvMatrix m;
  uint rows, columns;

  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
    for (uint i = g.index; i < height * width; i += g.count) {
      const uint r = i / width, c = i % width, k = column + c;
      const bool inside = row + r < rows && k < columns;
      const long offset = long(row + r) * m.row_stride + long(k / m.inner) * m.outer_stride + k % m.inner;
      to[r * stride + c] = inside ? float(data[offset]) : 0.0f;
    }
  }
};
