// Operand loaders for implicit GEMM. They read im2col(source) without storing it.
#pragma once

#include "conv/divide.h"
#include "lib/gemm.h"

// Returns the source index that output `position` reads at `tap` along one dimension, or -1 if it is out of range.
// BACKWARD: returns the index of the output element that reads input `position` at `tap`.
template <bool BACKWARD>
inline int source_index(uint position, uint tap, uint d, thread const ConvWindow& w) {
  if (BACKWARD) {
    const int from = int(position) + w.padding[d] - int(tap) * w.dilation[d], index = from / w.stride[d];
    return from >= 0 && index * w.stride[d] == from && index < int(w.source[d]) ? index : -1;
  }
  const int index = int(position) * w.stride[d] - w.padding[d] + int(tap) * w.dilation[d];
  return index >= 0 && index < int(w.source[d]) ? index : -1;
}

// An overload that divides by the stride with by_stride.
template <bool BACKWARD>
inline int source_index(uint position, uint tap, uint d, constant ConvParams& p) {
  constant ConvWindow& w = p.window;
  if (!BACKWARD) {
    const int index = int(position) * w.stride[d] - w.padding[d] + int(tap) * w.dilation[d];
    return uint(index) < w.source[d] ? index : -1;
  }
  const int from = int(position) + w.padding[d] - int(tap) * w.dilation[d];
  if (from < 0) return -1;
  const int index = int(divide(uint(from), p.by_stride[d]));
  return index * w.stride[d] == from && index < int(w.source[d]) ? index : -1;
}

struct ConvPosition {
  uint image, index[3];
};
inline ConvPosition position_of(uint column, thread const ConvWindow& w) {
  const uint z = column % w.positions[2], rows = column / w.positions[2];
  const uint y = rows % w.positions[1], planes = rows / w.positions[1];
  return {planes / w.positions[0], {planes % w.positions[0], y, z}};
}
struct ConvTap {
  uint channel, index[3];
};
inline ConvTap tap_of(uint row, ConvWindow w) {
  const uint z = row % w.taps[2], rows = row / w.taps[2];
  const uint y = rows % w.taps[1], planes = rows / w.taps[1];
  return {planes / w.taps[0], {planes % w.taps[0], y, z}};
}

inline ConvPosition position_of(uint column, constant ConvParams& p) {
  const uint rows = divide(column, p.by[2]), planes = divide(rows, p.by[1]), image = divide(planes, p.by[0]);
  constant uint* size = p.window.positions;
  return {image, {planes - image * size[0], rows - planes * size[1], column - rows * size[2]}};
}

// Points to the source elements of one output position or of one (tap, channel) pair.
template <typename T>
struct Im2colCursor {
  device const T* data;
  int index[3];  // source index, which may be out of range
};

// Loads im2col(source), with positions along M or N and (tap, channel) along K. Uses the table of offsets that
// conv_taps fills.
template <typename T>
struct Im2colLoader {
  typedef Im2colCursor<T> Cursor;
  device const T* data;
  device const ConvTapOffset* taps;
  constant ConvParams& p;
  uint mn_size, k_size;
  bool k_contiguous;

  METAL_FUNC Cursor at(uint mn) const {
    const ConvPosition position = position_of(min(mn, mn_size - 1), p);
    Cursor cursor = {data + long(position.image) * p.image_stride, {0, 0, 0}};
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      cursor.index[d] = int(position.index[d]) * p.window.stride[d] - p.window.padding[d];
      cursor.data += long(cursor.index[d]) * p.source_stride[d];
    }
    if (mn >= mn_size) cursor.index[0] = INT_MIN / 2;  // out of range at every tap
    return cursor;
  }
  METAL_FUNC uint4 load(Cursor cursor, uint k) const {
    if (k >= k_size) return uint4(0);
    const ConvTapOffset tap = taps[k / (16 / sizeof(T))];
    bool inside = true;
#pragma unroll
    for (uint d = 0; d < 3; ++d) inside = inside && uint(cursor.index[d] + tap.index[d]) < p.window.source[d];
    return inside ? *(device const uint4*)(cursor.data + tap.offset) : uint4(0);
  }
};

// Loads the transpose of im2col(source), with (tap, channel) along N and positions along K.
template <typename T>
struct Im2colTransposedLoader {
  typedef Im2colCursor<T> Cursor;
  device const T* data;
  constant ConvParams& p;
  uint mn_size, k_size;
  bool k_contiguous;

  METAL_FUNC Cursor at(uint mn) const {
    const ConvTap tap = tap_of(mn / p.padded_channels, p.window);
    Cursor cursor = {data + mn % p.padded_channels, {0, 0, 0}};
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      cursor.index[d] = int(tap.index[d]) * p.window.dilation[d] - p.window.padding[d];
      cursor.data += long(cursor.index[d]) * p.source_stride[d];
    }
    if (mn >= mn_size) cursor.index[0] = INT_MIN / 2;  // out of range at every position
    return cursor;
  }
  METAL_FUNC uint4 load(Cursor cursor, uint k) const {
    if (k >= k_size) return uint4(0);
    const ConvPosition position = position_of(k, p);
    long offset = long(position.image) * p.image_stride;
    bool inside = true;
#pragma unroll
    for (uint d = 0; d < 3; ++d) {
      const int step = int(position.index[d]) * p.window.stride[d];
      inside = inside && uint(cursor.index[d] + step) < p.window.source[d];
      offset += long(step) * p.source_stride[d];
    }
    return inside ? *(device const uint4*)(cursor.data + offset) : uint4(0);
  }
};

// Loads an operand of a pointwise convolution. K covers the positions of all images, which are contiguous and 16-byte
// aligned.
template <typename T>
struct PointwiseLoader {
  typedef uint Cursor;
  device const T* data;
  long channel_stride, image_stride;
  uint positions;  // positions per image
  FastDivmod by;
  uint mn_size, k_size;
  bool k_contiguous;

  METAL_FUNC Cursor at(uint channel) const { return channel; }
  METAL_FUNC uint4 load(Cursor channel, uint k) const {
    if (channel >= mn_size || k >= k_size) return uint4(0);
    const uint image = divide(k, by);
    return *(device const uint4*)(data + (long(channel) * channel_stride + long(image) * image_stride + k -
                                          image * positions));
  }
};
