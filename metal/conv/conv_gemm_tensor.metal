// Convolution without im2col, as matmul2d GEMMs that read a channels-last copy of the input with padded rows.
//
// In this copy, the S taps of one kernel row are S * C contiguous elements, and the windows of consecutive outputs
// start stride * C elements apart. The windows of all outputs therefore form a matrix with overlapping rows, and the
// convolution is the sum of one GEMM per kernel row, each at a different offset. Adjacent rows and adjacent images
// share their padding. Matrix rows that start in the padding produce results that are not stored.
#include "conv/gemm_tiles.h"
#include "conv/tile_epilogue.h"
#include "lib/instantiate.h"
#include "lib/multiply_steps.h"
#include "lib/vec.h"

// The products of a tile: the steps `first` to `last` of a part, at its rows (lib/multiply_steps.h).
struct ConvSteps {
  constant ConvGemmParams& p;
  constant ConvGemmPart& part;
  TileOffset tile;
  uint first, last;
  METAL_FUNC int count() const { return int(last - first); }
  METAL_FUNC int depth() const { return int(part.K); }
  METAL_FUNC int left_row(int i) const {
    const uint step = first + uint(i);
    return int(tile.m + (p.has_rows ? p.rows[part.first_step + step] : step * p.left_step));
  }
  METAL_FUNC int right_row(int i) const { return int(tile.n + (first + uint(i)) * part.right_row_step); }
  METAL_FUNC int right_column(int i) const { return int((first + uint(i)) * part.right_column_step); }
};

// Grid: (tiles x parts, 1, splits of the steps). The parts of a tile are adjacent, because they read the same pixels.
template <typename T, typename Tile, bool GROUPED>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void conv_gemm_tensor(device T* out [[buffer(0)]], device T* left [[buffer(1)]], device T* right [[buffer(2)]],
                             device const T* bias [[buffer(3)]], constant ConvGemmParams& p [[buffer(4)]],
                             device float* partials [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]]) {
  constexpr auto descriptor = matmul2d_descriptor(int(Tile::BM), int(Tile::BN), static_cast<int>(dynamic_extent), false,
                                                  true, false, matmul2d_descriptor::mode::multiply_accumulate);
  typedef matmul2d<descriptor, execution_simdgroups<Tile::simd_groups>> Multiply;
  constant ConvGemmPart& part = p.parts[group.x % p.part_count];
  const TileOffset tile = raster_tile<Tile>(group.x / p.part_count, p.M, p.N);
  const uint first = group.z * p.steps_per_split, last = min(part.steps, first + p.steps_per_split);
  const StepMatrix<T> A = {left + part.left, p.left_pitch, part.K, part.left_rows};
  const StepMatrix<T> B = {right + part.right, part.right_pitch, part.right_width, part.right_rows};
  typedef decltype(step_operand(A, 0, 0, 0)) Operand;
  Multiply multiply;
  auto sum = multiply.template get_destination_cooperative_tensor<Operand, Operand, float>();
  MPSX_UNROLL
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = 0.0f;
  const ConvSteps steps = {p, part, tile, first, last};
  MPSX_MULTIPLY_STEPS(multiply, A, B, steps, sum);
  const ConvTensorEpilogue<T, GROUPED, GridPixels> epilogue = {
      out + part.out,
      A.data,
      B.data,
      bias + part.first_channel,
      partials + (p.has_partials ? ulong(group.z) * p.M * p.N : 0),
      p,
      part,
      {p.output.grid}};
  epilogue.store(sum, tile);
}

// Copies a weight to rows that conv_gemm_tensor reads. Each thread copies the taps of one channel in one step, because
// they are adjacent in most weights. Grid, in threads: (padded channels, outputs, steps).
template <typename T>
kernel void conv_pack_weight_tensor(device T* out [[buffer(0)]], device const T* weight [[buffer(1)]],
                                    constant ConvWeightParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  enum : uint { kBatch = 4 };
  constant ConvWeightStep& step = p.steps[gid.z];
  const uint fold = divide(gid.x, p.by_channels), channel = gid.x - fold * p.channels;
  const uint group = divide(channel, p.by_group_channels), c = channel - group * p.group_channels;
  const uint o = gid.y - group * p.group_outputs;  // outside the group's outputs off the diagonal
  const bool inside = o < p.group_outputs && fold < p.fold_taps;
  device const T* const from = weight + (step.from + long(group) * p.group_stride + long(o) * p.out_stride +
                                         long(c) * p.channel_stride + long(fold) * p.fold_stride);
  device T* const to = out + (step.to + long(gid.y) * step.taps * p.padded_channels + gid.x);
  for (uint first = 0; first < step.taps; first += kBatch) {
    // Issue all loads before the first store.
    T values[kBatch];
    MPSX_UNROLL
    for (uint i = 0; i < kBatch; ++i)
      values[i] = inside && first + i < step.taps ? from[long(first + i) * p.tap_stride] : T(0);
    MPSX_UNROLL
    for (uint i = 0; i < kBatch; ++i)
      if (first + i < step.taps) to[ulong(first + i) * p.padded_channels] = values[i];
  }
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
  const uint plane = divide(n, p.by_plane), plane_z = divide(plane, p.by_planes);
  const ConvPixel pixel = pixel_of(n - plane * p.plane_pixels, p.grid);
  const int z = int(pixel.index[0]) * p.stride[0] + int(plane_z) - p.padding[0];
  const int y = int(pixel.index[1]) * p.stride[1] + int(plane - plane_z * p.planes[1]) - p.padding[1];
  const int x = int(pixel.index[2]) * p.stride[2] - p.padding[2];
  const bool inside = n < p.pixels && pixel.image < p.images && uint(z) < p.source[0] && uint(x) < p.source[2];
  return {source +
              (inside ? long(pixel.image) * p.image_stride + long(z) * p.source_stride[0] + long(x) * p.source_stride[2]
                      : 0),
          y, inside};
}

// Loads COUNT adjacent channels of a packed pixel, starting at `first`, or zeros where there are none. Issues all loads
// before the first use, from clamped addresses.
template <bool FOLD, uint COUNT, typename T>
METAL_FUNC void load_channels(PackedPixel<T> from, uint first, constant ConvPackParams& p, thread T* values) {
  bool inside[COUNT];
  MPSX_UNROLL
  for (uint i = 0; i < COUNT; ++i) {
    const uint fold = FOLD ? divide(first + i, p.by_channels) : 0, channel = first + i - fold * p.channels;
    const int row = from.row + int(fold * p.fold_dilation);
    inside[i] = from.inside && uint(row) < p.source[1] && (FOLD ? fold < p.fold_taps : channel < p.channels);
    values[i] = from.data[inside[i] ? long(row) * p.source_stride[1] + long(channel) * p.channel_stride : 0];
  }
  MPSX_UNROLL
  for (uint i = 0; i < COUNT; ++i) values[i] = inside[i] ? values[i] : T(0);
}

// Packs a tensor with arbitrary strides. Each threadgroup transposes a tile in threadgroup memory, in words of one or
// two channels. Grid: (tiles of pixels, tiles of channels, groups of the convolution)
template <typename T>
kernel void conv_pack_tensor(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                             constant ConvPackParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint {
    kVec = 16 / sizeof(T),
    kPerWord = 4 / sizeof(T),
    kStride = kPackBytes / 4 + 1,  // words per pixel; an odd number, so that pixels use different banks
    kSlices = 4,
    kSliceWords = kPackBytes / 4 / kSlices,
    kSlice = kSliceWords * kPerWord,  // channels per slice
  };
  threadgroup uint tile[kPackPixels * kStride];
  const uint first_pixel = g.group.x * kPackPixels, first_channel = g.group.y * (kPackBytes / sizeof(T));
  const uint width = min(uint(kPackBytes / sizeof(T)), p.padded_channels - first_channel);
  source += long(g.group.z) * p.channels * p.channel_stride;
  out += ulong(g.group.z) * p.pixels * p.padded_channels;
  for (uint i = g.index; i < kPackPixels * kSlices; i += g.count) {
    const uint pixel = i % kPackPixels, slice = i / kPackPixels;
    if (slice * kSlice >= width) break;
    const PackedPixel<T> from = packed_pixel(source, first_pixel + pixel, p);
    T values[kSlice];
    if (p.fold_taps > 1)
      load_channels<true, kSlice>(from, first_channel + slice * kSlice, p, values);
    else
      load_channels<false, kSlice>(from, first_channel + slice * kSlice, p, values);
    MPSX_UNROLL
    for (uint w = 0; w < kSliceWords; ++w) {
      uint4 word = uint4(0);
      MPSX_UNROLL
      for (uint j = 0; j < kPerWord; ++j) VecWords<T, sizeof(T)>::set(word, j, values[w * kPerWord + j]);
      tile[pixel * kStride + slice * kSliceWords + w] = word.x;
    }
  }
  tg_barrier();
  const uint vectors = width / kVec;
  for (uint i = g.index; i < kPackPixels * vectors; i += g.count) {
    const uint pixel = i / vectors, v = i - pixel * vectors;
    if (first_pixel + pixel >= p.pixels) break;
    threadgroup const uint* const from = tile + (pixel * kStride + v * 4);
    *(device uint4*)(out + (ulong(first_pixel + pixel) * p.padded_channels + first_channel + v * kVec)) =
        uint4(from[0], from[1], from[2], from[3]);
  }
}

// Vector n of V adjacent pixels: its offset in the source, and the index of its first pixel in the packed grid.
struct ConvPixelVector {
  long from;
  uint to;
};
template <uint V>
inline ConvPixelVector pixel_vector(uint n, constant ConvPackParams& p) {
  const uint rows = divide(n, p.by_row_vectors), x = (n - rows * p.row_vectors) * V;
  const uint planes = divide(rows, p.by_source[1]), y = rows - planes * p.source[1];
  const uint image = divide(planes, p.by_source[0]), z = planes - image * p.source[0];
  const uint padded_z = z + uint(p.padding[0]), grid_z = divide(padded_z, p.by_stride[0]);
  const uint padded_y = y + uint(p.padding[1]), grid_y = divide(padded_y, p.by_stride[1]);
  const uint plane = (padded_z - grid_z * p.planes[0]) * p.planes[1] + padded_y - grid_y * p.planes[1];
  const uint row = (image * p.grid.pitch[0] + grid_z) * p.grid.pitch[1] + grid_y;
  return {long(image) * p.image_stride + long(z) * p.source_stride[0] + long(y) * p.source_stride[1] + x,
          plane * p.plane_pixels + row * p.grid.pitch[2] + x + uint(p.padding[2])};
}

// Packs a tensor whose rows are contiguous and consist of whole vectors of V pixels. The first threadgroups copy the
// source, and transpose it in threadgroup memory, in words of one or two channels. The rest write zeros to the padding.
// Grid: (tiles of kPackPixels source pixels, then tiles of kClearPixels packed pixels; tiles of channels; groups of the
// convolution).
template <typename T, uint V>
kernel void conv_pack_rows_tensor(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                  constant ConvPackParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  enum : uint {
    kVec = 16 / sizeof(T),
    kPerWord = 4 / sizeof(T),
    kWords = kPackBytes / 4,
    kStride = kWords + 1,  // an odd number, so that pixels use different banks
    kTileVectors = kPackPixels / V,
    kBatch = 2,
    kNone = 0xffffffff,
  };
  threadgroup uint tile[kPackPixels * kStride];
  threadgroup uint to[kPackPixels];
  const uint first_channel = g.group.y * (kPackBytes / sizeof(T));
  const uint width = min(uint(kPackBytes / sizeof(T)), p.padded_channels - first_channel);
  source += long(g.group.z) * p.channels * p.channel_stride;
  out += ulong(g.group.z) * p.pixels * p.padded_channels + first_channel;
  if (g.group.x >= p.source_tiles) {
    const uint first = (g.group.x - p.source_tiles) * kClearPixels, end = min(first + kClearPixels, p.pixels);
    for (uint n = first + g.index; n < end; n += g.count) {
      const PackedPixel<T> from = packed_pixel(source, n, p);
      if (from.inside && uint(from.row) < p.source[1]) continue;
      for (uint c = 0; c < width; c += kVec) *(device uint4*)(out + (ulong(n) * p.padded_channels + c)) = uint4(0);
    }
    return;
  }
  const uint first_vector = g.group.x * kTileVectors;
  for (uint first = g.index; first < kTileVectors * kWords; first += kBatch * g.count) {
    Vec<T, V> values[kBatch][kPerWord];
    uint packed[kBatch];
    // Issue all loads before the first use.
    MPSX_UNROLL
    for (uint b = 0; b < kBatch; ++b) {
      const uint i = first + b * g.count, n = first_vector + i % kTileVectors;
      const uint channel = first_channel + i / kTileVectors * kPerWord;
      const ConvPixelVector at = pixel_vector<V>(min(n, p.vectors - 1), p);
      packed[b] = n < p.vectors ? at.to : kNone;
      device const T* from = source + (at.from + long(min(channel, p.channels - 1)) * p.channel_stride);
      MPSX_UNROLL
      for (uint j = 0; j < kPerWord; ++j) {
        values[b][j] = load_vec<V>(from);
        if (channel + j + 1 < p.channels) from += p.channel_stride;
      }
    }
    MPSX_UNROLL
    for (uint b = 0; b < kBatch; ++b) {
      const uint i = first + b * g.count, pixel = i % kTileVectors * V, word = i / kTileVectors;
      const uint channel = first_channel + word * kPerWord;
      if (word >= kWords) break;
      MPSX_UNROLL
      for (uint k = 0; k < V; ++k) {
        uint4 words = uint4(0);
        MPSX_UNROLL
        for (uint j = 0; j < kPerWord; ++j)
          VecWords<T, sizeof(T)>::set(words, j, channel + j < p.channels ? values[b][j].v[k] : T(0));
        tile[(pixel + k) * kStride + word] = words.x;
        if (word == 0) to[pixel + k] = packed[b] == kNone ? uint(kNone) : packed[b] + k;
      }
    }
  }
  tg_barrier();
  for (uint i = g.index; i < kPackPixels * kWords / 4; i += g.count) {
    const uint pixel = i / (kWords / 4), word = i % (kWords / 4) * 4, n = to[pixel];
    if (n == kNone || word * kPerWord >= width) continue;
    threadgroup const uint* const from = tile + (pixel * kStride + word);
    *(device uint4*)(out + (ulong(n) * p.padded_channels + word * kPerWord)) =
        uint4(from[0], from[1], from[2], from[3]);
  }
}

// Packs a tensor whose channels are contiguous. Each thread copies one 16-byte vector. Grid, in threads: (vectors,
// groups of the convolution)
template <typename T>
kernel void conv_pack_vectors_tensor(device T* out [[buffer(0)]], device const T* source [[buffer(1)]],
                                     constant ConvPackParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  enum : uint { kVec = 16 / sizeof(T) };
  const uint pixel = divide(gid.x, p.by_vectors), channel = gid.x * kVec - pixel * p.padded_channels;
  const PackedPixel<T> from = packed_pixel(source, pixel, p);
  const bool inside = from.inside && uint(from.row) < p.source[1];
  device const T* const data = from.data + (long(from.row) * p.source_stride[1] + channel + gid.y * p.channels);
  *(device uint4*)(out + (ulong(gid.y) * p.pixels * p.padded_channels + ulong(gid.x) * kVec)) =
      inside ? *(device const uint4*)data : uint4(0);
}

#define MPSX_CONV_GEMM(T, TAG, NAME, TILE) \
  MPSX_KERNEL("conv_gemm_tensor_" NAME "_" #TAG, conv_gemm_tensor<T, TILE, false>)
MPSX_CONV_TILES_16_BIT(MPSX_CONV_GEMM, half, f16)
MPSX_CONV_TILES_16_BIT(MPSX_CONV_GEMM, bfloat, bf16)
MPSX_CONV_TILES_F32(MPSX_CONV_GEMM)
MPSX_KERNEL("conv_gemm_tensor_grouped_f16", conv_gemm_tensor<half, Tile128x64, true>)
MPSX_KERNEL("conv_gemm_tensor_grouped_bf16", conv_gemm_tensor<bfloat, Tile128x64, true>)
MPSX_KERNEL("conv_gemm_tensor_grouped_f32", conv_gemm_tensor<float, Tile128x64f32, true>)
#define MPSX_CONV_PACK(T, TAG, ...)                                        \
  MPSX_KERNEL("conv_pack_tensor_" #TAG, conv_pack_tensor<T>)               \
  MPSX_KERNEL("conv_pack_weight_tensor_" #TAG, conv_pack_weight_tensor<T>) \
  MPSX_KERNEL("conv_pack_rows2_tensor_" #TAG, conv_pack_rows_tensor<T, 2>) \
  MPSX_KERNEL("conv_pack_rows4_tensor_" #TAG, conv_pack_rows_tensor<T, 4>) \
  MPSX_KERNEL("conv_pack_vectors_tensor_" #TAG, conv_pack_vectors_tensor<T>)
MPSX_FOR_FLOAT(MPSX_CONV_PACK)
