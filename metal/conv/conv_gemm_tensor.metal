// Convolution without im2col, as matmul2d GEMMs that read a channels-last copy of the input with padded rows.
//
// In this copy, the S taps of one kernel row are S * C contiguous elements, and the windows of consecutive outputs
// start stride * C elements apart. The windows of all outputs therefore form a matrix with overlapping rows, and the
// convolution is the sum of one GEMM per kernel row, each at a different offset. Adjacent rows and adjacent images
// share their padding. Matrix rows that start in the padding produce results that are not stored.
#include "conv/gemm_params.h"
#include "conv/im2col.h"
#include "lib/instantiate.h"
#include "lib/tensor_gemm.h"
#include "lib/vec.h"

struct ConvPixel {
  uint image, index[3];
};
inline ConvPixel pixel_of(uint n, constant ConvGrid& grid) {
  const uint rows = divide(n, grid.by[2]), planes = divide(rows, grid.by[1]), image = divide(planes, grid.by[0]);
  return {image, {planes - image * grid.pitch[0], rows - planes * grid.pitch[1], n - rows * grid.pitch[2]}};
}

// Stores a tile's elements at their pixels, or the tile's partial sums if the steps are split.
template <typename T>
struct ConvTensorEpilogue {
  device T* out;
  device const T* bias;
  device float* partials;
  constant ConvGemmParams& p;

  template <bool PIXELS_LEFT, typename Sum>
  METAL_FUNC void store_pixels(thread Sum& sum, TileOffset tile) const {
    MPSX_UNROLL
    for (ushort i = 0; i < sum.get_capacity(); ++i) {
      const auto at = sum.get_multidimensional_index(i);
      const uint row = tile.m + uint(at[1]), column = tile.n + uint(at[0]);
      const uint channel = PIXELS_LEFT ? column : row;
      const ConvPixel pixel = pixel_of(PIXELS_LEFT ? row : column, p.grid);  // past the last image in the last tile
      const bool inside = channel < (PIXELS_LEFT ? p.N : p.M) && pixel.image < p.images &&
                          pixel.index[0] < p.positions[0] && pixel.index[1] < p.positions[1] &&
                          pixel.index[2] < p.positions[2];
      if (!inside) continue;
      const uint offset = pixel.image * p.out_image + pixel.index[0] * p.out_stride[0] +
                          pixel.index[1] * p.out_stride[1] + pixel.index[2] * p.out_stride[2];
      out[offset + channel * p.out_channel] = T(sum[i] + (p.has_bias ? float(bias[channel]) : 0.0f));
    }
  }
  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, TileOffset tile) const {
    if (p.has_partials)
      sum.store(tensor(partials, dextents<int, 2>(int(p.N), int(p.M)), array<int, 2>{1, int(p.N)})
                    .slice(int(tile.n), int(tile.m)));
    else if (p.pixels_left)
      store_pixels<true>(sum, tile);
    else
      store_pixels<false>(sum, tile);
  }
};

// Returns the rows of an operand, starting at `first`. Each row has K elements and may overlap the next one.
template <typename T>
METAL_FUNC auto operand_rows(device T* data, constant ConvGemmOperand& operand, uint K, uint rows, uint first) {
  return tensor(data, dextents<int, 2>(int(K), int(rows)), array<int, 2>{1, int(operand.pitch)}).slice(0, int(first));
}

// Grid: (tiles, 1, splits of the steps).
template <typename T, typename Tile>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void conv_gemm_tensor(device T* out [[buffer(0)]], device T* left [[buffer(1)]], device T* right [[buffer(2)]],
                             device const T* bias [[buffer(3)]], constant ConvGemmParams& p [[buffer(4)]],
                             device float* partials [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]]) {
  constexpr auto descriptor = matmul2d_descriptor(int(Tile::BM), int(Tile::BN), static_cast<int>(dynamic_extent), false,
                                                  true, false, matmul2d_descriptor::mode::multiply_accumulate);
  typedef matmul2d<descriptor, execution_simdgroups<Tile::simd_groups>> Multiply;
  const TileOffset tile = raster_tile<Tile>(group.x, p.M, p.N);
  const uint first = group.z * p.steps_per_split, last = min(p.steps, first + p.steps_per_split);
  typedef decltype(operand_rows(left, p.left, 0, 0, 0)) Operand;
  Multiply multiply;
  auto sum = multiply.template get_destination_cooperative_tensor<Operand, Operand, float>();
  MPSX_UNROLL
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = 0.0f;
  for (uint step = first; step < last; ++step) {
    const long offset = p.has_offsets ? p.offsets[step] : 0;
    const long a = p.has_offsets && p.pixels_left ? offset : long(step) * p.left.step;
    const long b = p.has_offsets && !p.pixels_left ? offset : long(step) * p.right.step;
    const Operand A = operand_rows(left + a, p.left, p.K, p.M, tile.m);
    const Operand B = operand_rows(right + b, p.right, p.K, p.N, tile.n);
    multiply.run(A, B, sum);
  }
  const ConvTensorEpilogue<T> epilogue = {out, bias, partials + (p.has_partials ? ulong(group.z) * p.M * p.N : 0), p};
  epilogue.store(sum, tile);
}

// Where a pixel of the packed grid comes from. If several taps are folded into the pixel, `row` is that of the first
// tap.
template <typename T>
struct PackedPixel {
  device const T* data;
  int row;
  bool inside;
};
template <typename T>
inline PackedPixel<T> packed_pixel(device const T* source, uint n, constant ConvPackParams& p) {
  const uint plane = divide(n, p.by_plane);
  const ConvPixel pixel = pixel_of(n - plane * p.plane_pixels, p.grid);
  const int z = int(pixel.index[0]) * p.stride[0] + int(plane / p.planes[1]) - p.padding[0];
  const int y = int(pixel.index[1]) * p.stride[1] + int(plane % p.planes[1]) - p.padding[1];
  const int x = int(pixel.index[2]) * p.stride[2] - p.padding[2];
  const bool inside = n < p.pixels && pixel.image < p.images && uint(z) < p.source[0] && uint(x) < p.source[2];
  return {source +
              (inside ? long(pixel.image) * p.image_stride + long(z) * p.source_stride[0] + long(x) * p.source_stride[2]
                      : 0),
          y, inside};
}

// Packs a tensor with arbitrary strides. Each threadgroup transposes a tile in threadgroup memory.
template <typename T>
kernel void conv_pack_tensor(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                             constant ConvPackParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint {
    kVec = 16 / sizeof(T),
    kChannels = kPackBytes / sizeof(T),
    kStride = kChannels + 4 / sizeof(T),  // an odd number of words, so that pixels use different banks
    kSlices = 4,
  };
  threadgroup T tile[kPackPixels * kStride];
  const uint first_pixel = g.group.x * kPackPixels, first_channel = g.group.y * kChannels;
  for (uint i = g.index; i < kPackPixels * kSlices; i += g.count) {
    const uint pixel = i % kPackPixels;
    const PackedPixel<T> from = packed_pixel(source, first_pixel + pixel, p);
    MPSX_UNROLL
    for (uint c = i / kPackPixels; c < kChannels; c += kSlices) {
      const uint index = first_channel + c, tap = p.fold_taps > 1 ? index / p.channels : 0;
      const uint channel = index - tap * p.channels;
      const int row = from.row + int(tap * p.fold_dilation);
      const bool inside = from.inside && tap < p.fold_taps && channel < p.channels && uint(row) < p.source[1];
      tile[pixel * kStride + c] =
          inside ? from.data[long(row) * p.source_stride[1] + long(channel) * p.channel_stride] : T(0);
    }
  }
  tg_barrier();
  const uint vectors = min(uint(kChannels), p.padded_channels - first_channel) / kVec;
  for (uint i = g.index; i < kPackPixels * vectors; i += g.count) {
    const uint pixel = i / vectors, c = i % vectors * kVec;
    if (first_pixel + pixel >= p.pixels) break;
    uint4 words = uint4(0);
    MPSX_UNROLL
    for (uint j = 0; j < kVec; ++j) VecWords<T, sizeof(T)>::set(words, j, tile[pixel * kStride + c + j]);
    *(device uint4*)(out + (ulong(first_pixel + pixel) * p.padded_channels + first_channel + c)) = words;
  }
}

// Packs a tensor whose channels are contiguous. Each thread copies one 16-byte vector.
template <typename T>
kernel void conv_pack_vectors_tensor(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                     constant ConvPackParams& p [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  enum : uint { kVec = 16 / sizeof(T) };
  const uint pixel = divide(gid, p.by_vectors), channel = gid * kVec - pixel * p.padded_channels;
  const PackedPixel<T> from = packed_pixel(source, pixel, p);
  const bool inside = from.inside && uint(from.row) < p.source[1];
  device const T* const data = from.data + (long(from.row) * p.source_stride[1] + channel);
  *(device uint4*)(out + ulong(gid) * kVec) = inside ? *(device const uint4*)data : uint4(0);
}

typedef TensorTile<128, 256, 8, false> Tile128x256;
typedef TensorTile<128, 128, 8, false> Tile128x128;
typedef TensorTile<64, 128, 4, false> Tile64x128;
typedef TensorTile<128, 64, 4, false> Tile128x64;
typedef TensorTile<128, 64, 8, false> Tile128x64f32;  // float32 needs one SIMD group per 16 rows

#define MPSX_CONV_TENSOR_16_BIT(T, TAG)                                           \
  MPSX_KERNEL("conv_gemm_tensor_128x256_" #TAG, conv_gemm_tensor<T, Tile128x256>) \
  MPSX_KERNEL("conv_gemm_tensor_128x64_" #TAG, conv_gemm_tensor<T, Tile128x64>)
#define MPSX_CONV_TENSOR(T, TAG, ...)                                             \
  MPSX_KERNEL("conv_gemm_tensor_128x128_" #TAG, conv_gemm_tensor<T, Tile128x128>) \
  MPSX_KERNEL("conv_gemm_tensor_64x128_" #TAG, conv_gemm_tensor<T, Tile64x128>)   \
  MPSX_KERNEL("conv_pack_tensor_" #TAG, conv_pack_tensor<T>)                      \
  MPSX_KERNEL("conv_pack_vectors_tensor_" #TAG, conv_pack_vectors_tensor<T>)
MPSX_FOR_FLOAT(MPSX_CONV_TENSOR)
MPSX_CONV_TENSOR_16_BIT(half, f16)
MPSX_CONV_TENSOR_16_BIT(bfloat, bf16)
MPSX_KERNEL("conv_gemm_tensor_128x64_f32", conv_gemm_tensor<float, Tile128x64f32>)
