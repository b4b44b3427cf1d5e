// Weight gradients of convolutions on the tensor tier.
//
// The gradient of a row of taps is a GEMM over all windows: the packed output gradient times the packed input, read at
// the row's offset (conv_gemm_tensor.metal). One launch computes the GEMMs of all rows of taps and of all matrices of
// groups. K is split, and a second launch adds the partial sums and stores them in the weight's layout.
#include "conv/pixel_boxes.h"
#include "conv/weight_grad_tiles.h"
#include "lib/instantiate.h"
#include "lib/threadgroup.h"
#include "lib/vec.h"

// Grid: (tiles x steps x matrices, 1, splits). Threadgroups of the same split read the same pixels, so they are
// adjacent.
template <typename T, typename Tile>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void conv_weight_grad_tensor(device float* partials [[buffer(0)]], device T* grad [[buffer(1)]],
                                    device T* source [[buffer(2)]], constant ConvWeightGradParams& p [[buffer(3)]],
                                    uint3 group [[threadgroup_position_in_grid]]) {
  const uint tiles = (p.M + Tile::BM - 1) / Tile::BM * ((p.N + Tile::BN - 1) / Tile::BN), gemm = group.x / tiles;
  const uint matrix = gemm / p.steps, step = gemm - matrix * p.steps;
  const uint first = group.z * p.windows_per_split, last = min(p.windows, first + p.windows_per_split);
  const TensorOperand<T> left = {grad + long(matrix) * p.grad_matrix, p.grad_pitch};
  const TensorOperand<T> right = {
      source + (long(matrix) * p.source_matrix + long(p.offsets[step]) * long(p.padded_channels)), p.source_pitch};
  const ConvWeightGradPartials epilogue = {partials + (ulong(group.z) * p.matrices * p.steps + gemm) * p.M * p.N, p.M,
                                           p.N};
  tensor_gemm_tile<Tile, true, false, false, false>(left, right, p.M, p.N, first, last,
                                                    raster_tile<Tile>(group.x - gemm * tiles, p.M, p.N), epilogue);
}

// Computes one element of a step's GEMM from the windows that compute outputs. Returns early if it is NaN.
template <typename T>
inline float sum_windows(device const T* grad, device const T* source, constant ConvWeightGradParams& p) {
  float sum = 0.0f;
  for (uint image = 0; image < p.images; ++image)
    for (uint z = 0; z < p.positions.size[0]; ++z)
      for (uint y = 0; y < p.positions.size[1]; ++y) {
        const long row = long((image * p.grid.pitch[0] + z) * p.grid.pitch[1] + y) * long(p.grid.pitch[2]);
        for (uint x = 0; x < p.positions.size[2]; ++x)
          sum += float(grad[(row + x) * p.grad_pitch]) * float(source[(row + x) * p.source_pitch]);
        if (is_nan(sum)) return sum;
      }
  return sum;
}

// Computes the gradient of one weight from channels-last tensors. `grad` points to the weight's output channel in the
// first pixel, and `source` to its input channel. Returns early if the sum is NaN.
template <typename T>
inline float sum_outputs(device T* grad, device T* source, uint tap, constant ConvWeightGradParams& p) {
  const PixelMatrix<T> outputs = pixel_matrix(grad, p.grad, p.boxes, false);
  const PixelMatrix<T> inputs = pixel_matrix(source, p.source, p.boxes, true);
  const PixelIndex first = first_pixel(tap, p.boxes);
  float sum = 0.0f;
  for (uint image = 0; image < p.images; ++image)
    for (uint z = 0; z < p.positions.size[0]; ++z)
      for (uint y = 0; y < p.positions.size[1]; ++y) {
        for (uint x = 0; x < p.positions.size[2]; ++x) {
          const PixelIndex output = {{int(x), int(y), int(z), int(image)}};
          device T* const from = inputs.pixel(tap_pixel(output, first, p.boxes), 0);
          if (from != nullptr) sum += float(*outputs.pixel(output, 0)) * float(*from);
        }
        if (is_nan(sum)) return sum;
      }
  return sum;
}

// The GEMM and the column in it that compute an element of the weight. `channel` is that of the matrix.
struct ConvWeightColumn {
  uint step, column;
};
inline ConvWeightColumn weight_column(uint channel, uint tap, constant ConvWeightGradParams& p) {
  const uint rows = divide(tap, p.by_row_taps), step = divide(rows, p.by_fold_taps), fold = rows - step * p.fold_taps;
  return {step, (tap - rows * p.row_taps) * p.padded_channels + fold * p.channels + channel};
}

// Adds up `count` vectors that are `stride` elements apart.
template <uint V>
inline Vec<float, V> sum_splits(device const float* from, uint count, ulong stride) {
  enum : uint { kBatch = 8 };
  Vec<float, V> sum{};
  for (uint first = 0; first < count; first += kBatch) {
    // Issue all loads before the first use.
    Vec<float, V> values[kBatch];
    MPSX_UNROLL
    for (uint k = 0; k < kBatch; ++k)
      values[k] = first + k < count ? load_vec<V>(from + (first + k) * stride) : Vec<float, V>{};
    MPSX_UNROLL
    for (uint k = 0; k < kBatch; ++k) {
      MPSX_UNROLL
      for (uint j = 0; j < V; ++j) sum.v[j] += values[k].v[j];
    }
  }
  return sum;
}

// Adds the partial sums of a tile of channels and taps of one output, and transposes the tile in threadgroup memory,
// because channels are adjacent in the sums but not in most weights. The threads divide the splits into parts, and each
// thread adds V adjacent channels of one part. Skips the zero blocks of a matrix that combines several groups. Grid:
// (tiles of channels x outputs, tiles of taps).
template <typename T, uint V>
kernel void conv_weight_grad_reduce_tensor(device T* out [[buffer(0)]], device const float* partials [[buffer(1)]],
                                           device T* grad [[buffer(2)]], device T* source [[buffer(3)]],
                                           constant ConvWeightGradParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float tile[kWeightTile];
  const uint output = g.group.x / p.channel_tiles, matrix = output / p.M, row = output - matrix * p.M;
  const uint first_channel = (g.group.x - output * p.channel_tiles) * p.tile_channels;
  const uint first_tap = g.group.y * p.tile_taps, group_channel = row / p.group_outputs * p.group_channels;
  const uint channels = min(p.tile_channels, p.group_channels - first_channel);
  const uint taps = min(p.tile_taps, p.taps - first_tap);
  const uint pitch = p.tile_taps | 1, part_size = p.tile_channels * pitch;  // an odd pitch uses different banks
  const ulong size = ulong(p.M) * p.N, split_size = size * p.matrices * p.steps;
  const uint vectors = p.tile_channels / V, part_vectors = vectors * p.tile_taps;
  for (uint i = g.index; i < part_vectors * p.split_parts; i += g.count) {
    const uint part = divide(i, p.by_part_vectors), v = i - part * part_vectors;
    const uint t = divide(v, p.by_vectors), channel = (v - t * vectors) * V;
    if (channel >= channels || t >= taps) continue;
    const ConvWeightColumn at = weight_column(group_channel + first_channel + channel, first_tap + t, p);
    const uint first = part * p.splits_per_part, last = min(p.splits, first + p.splits_per_part);
    const Vec<float, V> sum = sum_splits<V>(
        partials + (first * split_size + ulong(matrix * p.steps + at.step) * size + ulong(row) * p.N + at.column),
        last - first, split_size);
    MPSX_UNROLL
    for (uint j = 0; j < V; ++j) tile[part * part_size + (channel + j) * pitch + t] = sum.v[j];
  }
  tg_barrier();
  out += long(output) * p.out_stride + long(first_channel) * p.channel_stride + long(first_tap) * p.tap_stride;
  const bool channels_last = p.channel_stride == 1;
  for (uint i = g.index; i < p.tile_channels * p.tile_taps; i += g.count) {
    const uint slow = channels_last ? divide(i, p.by_tile_channels) : divide(i, p.by_tile_taps);
    const uint fast = i - slow * (channels_last ? p.tile_channels : p.tile_taps);
    const uint channel = channels_last ? fast : slow, t = channels_last ? slow : fast;
    if (channel >= channels || t >= taps) continue;
    float sum = tile[channel * pitch + t];
    for (uint part = 1; part < p.split_parts; ++part) sum += tile[part * part_size + channel * pitch + t];
    // Windows that compute no output have a gradient of zero. If such a window contains an infinity or a NaN, the sum
    // is NaN, so compute it again without these windows.
    if (p.has_unused_windows && is_nan(sum)) {
      const uint matrix_channel = group_channel + first_channel + channel;
      device T *const dy = grad + (long(matrix) * p.grad_matrix + row), *x = source + long(matrix) * p.source_matrix;
      const ConvWeightColumn at = weight_column(matrix_channel, first_tap + t, p);
      sum = p.in_place ? sum_outputs(dy, x + matrix_channel, first_tap + t, p)
                       : sum_windows(dy, x + (long(p.offsets[at.step]) * long(p.padded_channels) + at.column), p);
    }
    out[long(channel) * p.channel_stride + long(t) * p.tap_stride] = T(sum);
  }
}

#define MPSX_CONV_WEIGHT_GRAD(T, TAG, NAME, TILE) \
  MPSX_KERNEL("conv_weight_grad_tensor_" NAME "_" #TAG, conv_weight_grad_tensor<T, TILE>)
MPSX_CONV_WEIGHT_GRAD_TILES(MPSX_CONV_WEIGHT_GRAD)
#define MPSX_CONV_WEIGHT_GRAD_REDUCE(T, TAG, ...)                                           \
  MPSX_KERNEL("conv_weight_grad_reduce_tensor_" #TAG, conv_weight_grad_reduce_tensor<T, 1>) \
  MPSX_KERNEL("conv_weight_grad_reduce4_tensor_" #TAG, conv_weight_grad_reduce_tensor<T, 4>)
MPSX_FOR_FLOAT(MPSX_CONV_WEIGHT_GRAD_REDUCE)
