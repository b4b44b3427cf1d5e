// Weight gradients of convolutions on the tensor tier.
//
// The gradient of a row of taps is a GEMM over all windows: the packed output gradient times the packed input, read at
// the row's offset (conv_gemm_tensor.metal). One launch computes the GEMMs of all rows of taps and of all matrices of
// groups. K is split, and a second launch adds the partial sums and stores them in the weight's layout.
#include "conv/pixels.h"
#include "lib/instantiate.h"
#include "lib/tensor_gemm.h"
#include "lib/threadgroup.h"

// Stores a tile of partial sums.
struct ConvWeightGradPartials {
  device float* data;
  uint M, N;
  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, TileOffset tile) const {
    sum.store(tensor(data, dextents<int, 2>(int(N), int(M)), array<int, 2>{1, int(N)}).slice(int(tile.n), int(tile.m)));
  }
};

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
  tensor_gemm_tile<Tile, true, false, false>(left, right, p.M, p.N, first, last,
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

// Adds the partial sums of a tile of channels and taps of one output, and transposes the tile in threadgroup memory,
// because channels are adjacent in the sums but not in most weights. The blocks off the diagonal of a matrix of several
// groups are not read. Grid: (tiles of channels x outputs, tiles of taps).
template <typename T>
kernel void conv_weight_grad_reduce_tensor(device T* out [[buffer(0)]], device const float* partials [[buffer(1)]],
                                           device const T* grad [[buffer(2)]], device const T* source [[buffer(3)]],
                                           constant ConvWeightGradParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  enum : uint { kBatch = 8 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float tile[kWeightTile];
  const uint output = g.group.x / p.channel_tiles, matrix = output / p.M, row = output - matrix * p.M;
  const uint first_channel = (g.group.x - output * p.channel_tiles) * p.tile_channels;
  const uint first_tap = g.group.y * p.tile_taps;
  const uint channels = min(p.tile_channels, p.group_channels - first_channel);
  const uint taps = min(p.tile_taps, p.taps - first_tap), pitch = taps | 1;  // an odd pitch uses different banks
  const uint group_channel = row / p.group_outputs * p.group_channels + first_channel;
  const ulong size = ulong(p.M) * p.N, split_size = size * p.matrices * p.steps;
  for (uint i = g.index; i < channels * taps; i += g.count) {
    const uint t = i / channels, channel = i - t * channels, tap = first_tap + t;
    const uint rows = tap / p.row_taps, step = rows / p.fold_taps, fold = rows - step * p.fold_taps;
    const uint column = (tap - rows * p.row_taps) * p.padded_channels + fold * p.channels + group_channel + channel;
    device const float* const from = partials + (ulong(matrix * p.steps + step) * size + ulong(row) * p.N + column);
    float sum = 0.0f;
    for (uint first = 0; first < p.splits; first += kBatch) {
      // Issue all loads before the first use.
      float values[kBatch];
      MPSX_UNROLL
      for (uint k = 0; k < kBatch; ++k) values[k] = first + k < p.splits ? from[(first + k) * split_size] : 0.0f;
      MPSX_UNROLL
      for (uint k = 0; k < kBatch; ++k) sum += values[k];
    }
    // Windows that compute no output have a gradient of zero. If such a window contains an infinity or a NaN, the sum
    // is NaN, so compute it again without these windows.
    if (p.has_unused_windows && is_nan(sum))
      sum = sum_windows(
          grad + (long(matrix) * p.grad_matrix + row),
          source + (long(matrix) * p.source_matrix + long(p.offsets[step]) * long(p.padded_channels) + column), p);
    tile[channel * pitch + t] = sum;
  }
  tg_barrier();
  out += long(output) * p.out_stride + long(first_channel) * p.channel_stride + long(first_tap) * p.tap_stride;
  const bool channels_last = p.channel_stride == 1;
  for (uint i = g.index; i < channels * taps; i += g.count) {
    const uint slow = i / (channels_last ? channels : taps), fast = i - slow * (channels_last ? channels : taps);
    const uint channel = channels_last ? fast : slow, t = channels_last ? slow : fast;
    out[long(channel) * p.channel_stride + long(t) * p.tap_stride] = T(tile[channel * pitch + t]);
  }
}

typedef TensorTile<128, 256, 8, false> Tile128x256;
typedef TensorTile<128, 192, 8, false> Tile128x192;
typedef TensorTile<128, 128, 8, false> Tile128x128;
typedef TensorTile<64, 192, 4, false> Tile64x192;
typedef TensorTile<64, 128, 4, false> Tile64x128;

#define MPSX_CONV_WEIGHT_GRAD(T, TAG, ...)                                                      \
  MPSX_KERNEL("conv_weight_grad_tensor_128x128_" #TAG, conv_weight_grad_tensor<T, Tile128x128>) \
  MPSX_KERNEL("conv_weight_grad_tensor_64x128_" #TAG, conv_weight_grad_tensor<T, Tile64x128>)   \
  MPSX_KERNEL("conv_weight_grad_reduce_tensor_" #TAG, conv_weight_grad_reduce_tensor<T>)
#define MPSX_CONV_WEIGHT_GRAD_16_BIT(T, TAG)                                                    \
  MPSX_KERNEL("conv_weight_grad_tensor_128x256_" #TAG, conv_weight_grad_tensor<T, Tile128x256>) \
  MPSX_KERNEL("conv_weight_grad_tensor_128x192_" #TAG, conv_weight_grad_tensor<T, Tile128x192>) \
  MPSX_KERNEL("conv_weight_grad_tensor_64x192_" #TAG, conv_weight_grad_tensor<T, Tile64x192>)
MPSX_FOR_FLOAT(MPSX_CONV_WEIGHT_GRAD)
MPSX_CONV_WEIGHT_GRAD_16_BIT(half, f16)
MPSX_CONV_WEIGHT_GRAD_16_BIT(bfloat, bf16)
