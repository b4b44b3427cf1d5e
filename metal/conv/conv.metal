// Convolutions as products of the weight and the patches under the window, which are made as they are needed.
#include "conv/patches.h"
#include "lib/instantiate.h"

template <typename T>
struct ConvFinish {
  device T* out;
  device const T* bias;
  constant ConvParams& p;
  uint positions;

  METAL_FUNC void put(uint row, uint column, float sum) const {
    const uint image = column / positions, position = column % positions;
    const float start = p.has_bias ? float(bias[row]) : 0.0f;
    out[long(image) * p.out_image + long(row) * p.out_channel + long(position) * p.out_position] = T(sum + start);
  }
};
inline uint positions_of(constant ConvParams& p) {
  return p.window.positions[0] * p.window.positions[1] * p.window.positions[2];
}

// The result, or BACKWARD the gradient of the input, which is the result of a transposed convolution.
template <typename T, bool BACKWARD>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void conv(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                 device const T* weight [[buffer(2)]],
                 device const T* bias [[buffer(3)]], constant ConvParams& p [[buffer(4)]],
                 MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef SmallTile<T> Shape;
  threadgroup uint4 memory[Shape::memory];
  const uint group = g.group.z, first = group * p.rows;
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const ConvMatrixSource<T> left = {weight + long(group) * p.matrix.group_stride, p.matrix, p.rows, p.depth, true};
  const Patches<T, BACKWARD, false> right = {source + long(group) * p.channels * p.channel_stride, p, p.window,
                                             p.columns, p.depth, false};
  device T* target = out + long(first) * p.out_channel;
  const ConvFinish<T> finish = {target, p.has_bias ? bias + first : bias, p, positions_of(p)};
  tile_product<Shape>(left, right, 0, p.depth, finish, p.rows, p.columns, tile, memory, g);
}

template <typename T>
struct ConvWeightFinish {
  device T* out;
  uint columns;
  METAL_FUNC void put(uint row, uint column, float sum) const { out[ulong(row) * columns + column] = T(sum); }
};

// The gradient of the weight: the gradient of the result times the patches, over all places.
template <typename T>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void conv_weight(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                        device const T* grad [[buffer(2)]], constant ConvParams& p [[buffer(3)]],
                        MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef SmallTile<T> Shape;
  threadgroup uint4 memory[Shape::memory];
  const uint group = g.group.z;
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const ConvMatrixSource<T> left = {grad + long(group) * p.matrix.group_stride, p.matrix, p.rows, p.depth, true};
  const Patches<T, false, true> right = {source + long(group) * p.channels * p.channel_stride, p, p.window, p.depth,
                                         p.columns, true};
  const ConvWeightFinish<T> finish = {out + ulong(group) * p.rows * p.columns, p.columns};
  tile_product<Shape>(left, right, 0, p.depth, finish, p.rows, p.columns, tile, memory, g);
}

#define MPSX_CONV(T, TAG, ...)                          \
  MPSX_KERNEL("conv_" #TAG, conv<T, false>)             \
  MPSX_KERNEL("conv_backward_" #TAG, conv<T, true>)     \
  MPSX_KERNEL("conv_weight_" #TAG, conv_weight<T>)
MPSX_FOR_FLOAT(MPSX_CONV)
