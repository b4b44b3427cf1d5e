// Convolutions as products of the weight and the patches under the window, which are made as they are needed.
#include "conv/patches.h"
#include "lib/instantiate.h"

// The table of Patches.
kernel void conv_taps(device ConvTapOffset* out [[buffer(0)]], constant ConvParams& p [[buffer(1)]],
                      uint gid [[thread_position_in_grid]]) {
  const ConvWindow w = p.window;
  const uint k = gid * p.run;
  const ConvTap tap = tap_of(k / p.padded, w);
  ConvTapOffset to = {long(k % p.padded), {0, 0, 0}, 0};
  for (uint d = 0; d < 3; ++d) {
    to.at[d] = int(tap.at[d]) * w.dilation[d];
    to.offset += long(to.at[d]) * p.source_stride[d];
  }
  out[gid] = to;
}

// LAST: the result has its channels last, and is the transposed product, so that neighbouring threads have neighbours.
template <typename T, typename O, bool LAST>
struct ConvFinish {
  device O* out;
  device const T* bias;
  device float* parts;  // the sums of a part of the depth, for conv_join
  constant ConvParams& p;

  METAL_FUNC void put(uint row, uint column, float sum) const {
    if (p.splits > 1)
      parts[ulong(row) * (LAST ? p.rows : p.columns) + column] = sum;
    else
      put_whole(row, column, sum);
  }
  METAL_FUNC void put_whole(uint row, uint column, float sum) const {
    const uint channel = LAST ? column : row, place = LAST ? row : column, image = quotient(place, p.by_image);
    const long at = long(channel) * p.out_channel + long(place - image * p.image_positions) * p.out_place;
    out[long(image) * p.out_image + at] = O(sum + (p.has_bias ? float(bias[channel]) : 0.0f));
  }
};

// `batch`: of a group, or of a group and an image.
template <bool LAST, typename T, typename O>
METAL_FUNC ConvFinish<T, O, LAST> conv_finish(device O* out, device const T* bias, device float* parts,
                                              constant ConvParams& p, uint batch) {
  const uint first = batch / p.per_group * p.rows, image = batch % p.per_group;
  return {out + (long(image) * p.out_image + long(first) * p.out_channel), p.has_bias ? bias + first : bias, parts, p};
}

// One part of the depth of the product of a group's weights and `places`, lines of its source.
template <typename Shape, bool LAST, typename T, typename O, typename Source>
METAL_FUNC void conv_product(device O* out, Source places, device const T* weight, device const T* bias,
                             device float* parts, constant ConvParams& p, threadgroup uint4* memory, GroupThread g) {
  const uint batch = g.group.z / p.splits, first = g.group.z % p.splits * p.split_depth;
  const uint depth = min(p.depth, first + p.split_depth);
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const auto matrix = matrix_source(weight + long(batch / p.per_group) * p.matrix.group_stride, p.matrix.row_stride, 1,
                                    p.rows, p.depth, p.wide_matrix);
  device float* own = parts + (p.splits > 1 ? ulong(g.group.z) * p.rows * p.columns : 0);
  const auto finish = conv_finish<LAST>(out, bias, own, p, batch);
  if (LAST)
    tile_product<Shape>(places, matrix, first, depth, finish, p.columns, p.rows, tile, memory, g);
  else
    tile_product<Shape>(matrix, places, first, depth, finish, p.rows, p.columns, tile, memory, g);
}

// The result; or the gradient of the input, where windows go by steps of one.
template <typename T, typename Shape, bool LAST>
[[max_total_threads_per_threadgroup(Shape::limit)]]
kernel void conv(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                 device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                 constant ConvParams& p [[buffer(4)]], device float* parts [[buffer(5)]],
                 device const ConvTapOffset* taps [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const Patches<T> places = {source + g.group.z / p.splits * p.padded, taps, p, p.columns, p.depth, true};
  conv_product<Shape, LAST>(out, places, weight, bias, parts, p, memory, g);
}

// The result of a product whose depth was split. gid = (column, row, batch)
template <typename T, bool LAST>
kernel void conv_join(device T* out [[buffer(0)]], device const T* bias [[buffer(1)]],
                      constant ConvParams& p [[buffer(2)]], device float* parts [[buffer(3)]],
                      uint3 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.rows) * p.columns;
  device const float* part = parts + (gid.z * p.splits * size + ulong(gid.y) * (LAST ? p.rows : p.columns) + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.splits; ++i) sum += part[i * size];
  conv_finish<LAST>(out, bias, parts, p, gid.z).put_whole(gid.y, gid.x, sum);
}

// The windows that have an element at `at`, along one dimension: from first to last.
struct ConvWindows {
  int top, first, last;
};
inline ConvWindows windows_at(uint at, uint d, constant ConvWindow& w) {
  const int top = int(at) + w.padding[d], below = top - (int(w.taps[d]) - 1) * w.dilation[d];
  return {top, below > 0 ? (below + w.stride[d] - 1) / w.stride[d] : 0,
          min(top / w.stride[d], int(w.source[d]) - 1)};
}
// The tap at which window `at` has it; negative: at none, between two of them.
inline int tap_at(ConvWindows c, int at, uint d, constant ConvWindow& w) {
  const int distance = c.top - at * w.stride[d];
  if (w.dilation[d] == 1) return distance;
  const int tap = distance / w.dilation[d];
  return tap * w.dilation[d] == distance ? tap : -1;
}

// The gradient of the input, or the result of a transposed convolution: each element adds up the windows that have it.
// `columns` has a plane of p.depth windows for each image, channel and tap. gid = (place of an image, channel).
template <typename T>
kernel void conv_fold(device T* out [[buffer(0)]], device const float* columns [[buffer(1)]],
                      device const T* bias [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                      uint2 gid [[thread_position_in_grid]]) {
  constant ConvWindow& w = p.window;
  const ConvPlace place = place_of(gid.x, p);
  const ConvWindows z = windows_at(place.at[0], 0, w), y = windows_at(place.at[1], 1, w);
  const ConvWindows x = windows_at(place.at[2], 2, w);
  const ulong plane = ulong(place.image) * p.rows + gid.y, taps = w.taps[0] * w.taps[1] * w.taps[2];
  device const float* from = columns + plane * taps * p.depth;
  float sum = p.has_bias ? float(bias[gid.y]) : 0.0f;
  for (int a = z.first; a <= z.last; ++a) {
    const int tap_z = tap_at(z, a, 0, w);
    for (int b = y.first; b <= y.last && tap_z >= 0; ++b) {
      const int tap_y = tap_at(y, b, 1, w);
      if (tap_y < 0) continue;
      const uint line = (uint(tap_z) * w.taps[1] + uint(tap_y)) * w.taps[2];
      const uint windows = (uint(a) * w.source[1] + uint(b)) * w.source[2];
      for (int c = x.first; c <= x.last; ++c) {
        const int tap_x = tap_at(x, c, 2, w);
        if (tap_x >= 0) sum += from[ulong(line + uint(tap_x)) * p.depth + windows + uint(c)];
      }
    }
  }
  const uint inside = gid.x - place.image * p.image_positions;
  out[long(place.image) * p.out_image + long(gid.y) * p.out_channel + long(inside)] = T(sum);
}

// Of windows of one element and steps of one: a product of matrices for each image, p.columns wide.
template <typename T, typename O, typename Shape, bool LAST>
[[max_total_threads_per_threadgroup(Shape::limit)]]
kernel void conv_pointwise(device O* out [[buffer(0)]], device const T* source [[buffer(1)]],
                           device const T* weight [[buffer(2)]], device const T* bias [[buffer(3)]],
                           constant ConvParams& p [[buffer(4)]], device float* parts [[buffer(5)]],
                           MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint batch = g.group.z / p.splits, group = batch / p.per_group, image = batch % p.per_group;
  const auto places = matrix_source(
      source + (long(image) * p.image_stride + long(group) * p.channels * p.channel_stride), p.source_stride[2],
      p.channel_stride, p.columns, p.depth, true);
  conv_product<Shape, LAST>(out, places, weight, bias, parts, p, memory, g);
}

// The gradient of the weight, or the sums of a part of it, for conv_weight_join.
template <typename T>
struct ConvWeightFinish {
  device T* out;
  device float* parts;
  constant ConvParams& p;

  METAL_FUNC void put(uint row, uint column, float sum) const {
    const uint tap = column / p.padded, channel = column % p.padded, taps = p.columns / p.padded;
    if (channel >= p.channels) return;
    const ulong at = (ulong(row) * p.channels + channel) * taps + tap;
    if (p.splits > 1)
      parts[at] = sum;
    else
      out[at] = T(sum);
  }
};

// The gradient of the weight: the gradient of the result times the patches, over all places. POINTWISE: of windows of
// one element and steps of one, where neighbouring places lie together.
template <typename T, typename Shape, bool POINTWISE>
[[max_total_threads_per_threadgroup(Shape::limit)]]
kernel void conv_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                        device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                        device float* parts [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint group = g.group.z / p.splits, part = g.group.z % p.splits;
  const uint first = part * p.split_depth, depth = min(p.depth, first + p.split_depth);
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const ulong size = ulong(p.rows) * p.channels * (p.columns / p.padded);
  const ConvWeightFinish<T> finish = {out + group * size, parts + (p.splits > 1 ? g.group.z * size : 0), p};
  device const T* from = grad + long(group) * p.matrix.group_stride;
  if (POINTWISE) {
    const uint places = p.window.positions[2];
    const ImageLines<T> left = {from, p.matrix.row_stride, p.matrix.outer_stride, places, p.by[2], p.rows, depth, true};
    const ImageLines<T> right = {source + long(group) * p.channels * p.channel_stride, p.channel_stride, p.image_stride,
                                 places, p.by[2], p.columns, depth, true};
    tile_product<Shape>(left, right, first, depth, finish, p.rows, p.columns, tile, memory, g);
  } else {
    const uint padded_rows = uint(p.matrix.group_stride);
    const MatrixSource<T> left = {from, 1, p.matrix.outer_stride, padded_rows, depth, true, false};
    const PatchColumns<T> right = {source + group * p.padded, p, p.columns, depth, false};
    tile_product<Shape>(left, right, first, depth, finish, p.rows, p.columns, tile, memory, g);
  }
}

// gid = (element, group)
template <typename T>
kernel void conv_weight_join(device T* out [[buffer(0)]], device const float* parts [[buffer(1)]],
                      constant ConvParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.rows) * p.channels * (p.columns / p.padded);
  device const float* part = parts + (ulong(gid.y) * p.splits * size + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.splits; ++i) sum += part[i * size];
  out[ulong(gid.y) * size + gid.x] = T(sum);
}

#define MPSX_CONV_OF(NAME, T, TAG, TILE)                                                     \
  MPSX_KERNEL("conv" NAME "_" #TAG, conv<T, TILE<T>, false>)                                 \
  MPSX_KERNEL("conv_last" NAME "_" #TAG, conv<T, TILE<T>, true>)                             \
  MPSX_KERNEL("conv_pointwise" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, false>)          \
  MPSX_KERNEL("conv_pointwise_last" NAME "_" #TAG, conv_pointwise<T, T, TILE<T>, true>)      \
  MPSX_KERNEL("conv_columns" NAME "_" #TAG, conv_pointwise<T, float, TILE<T>, false>)        \
  MPSX_KERNEL("conv_weight" NAME "_" #TAG, conv_weight<T, TILE<T>, false>)                   \
  MPSX_KERNEL("conv_weight_pointwise" NAME "_" #TAG, conv_weight<T, TILE<T>, true>)
#define MPSX_CONV(T, TAG, ...)                               \
  MPSX_CONV_OF("", T, TAG, SmallTile)                        \
  MPSX_KERNEL("conv_join_" #TAG, conv_join<T, false>)        \
  MPSX_KERNEL("conv_join_last_" #TAG, conv_join<T, true>)    \
  MPSX_KERNEL("conv_fold_" #TAG, conv_fold<T>)               \
  MPSX_KERNEL("conv_weight_join_" #TAG, conv_weight_join<T>)
MPSX_FOR_FLOAT(MPSX_CONV)
MPSX_CONV_OF("_large", half, f16, LargeTile)
MPSX_CONV_OF("_large", bfloat, bf16, LargeTile)
