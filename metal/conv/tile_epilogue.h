// Stores the tiles that conv_gemm_tensor.metal and conv_pixels_tensor.metal compute.
#pragma once

#include "conv/pixels.h"
#include "lib/store_rows.h"

template <typename T>
struct AddBias {
  device const T* bias;
  uint last;
  float apply(uint, uint channel, float x) const { return x + float(bias[min(channel, last)]); }
};

// The pixels of a grid in row-major order.
struct GridPixels {
  ConvGrid grid;
  METAL_FUNC ConvPixel pixel(uint row) const { return pixel_of(row, grid); }
};

// Stores a tile's elements at their pixels, or the tile's partial sums if the steps are split. GROUPED: the matrix
// combines several groups of channels (ConvGroups). `rows` says which pixel each row computes.
template <typename T, bool GROUPED, typename Rows>
struct ConvTensorEpilogue {
  device T* out;
  device const T* left;
  device const T* right;
  device const T* bias;
  device float* partials;
  constant ConvGemmParams& p;
  constant ConvGemmPart& part;
  Rows rows;

  enum : uint { kNotStored = 0xffffffff };
  // Returns the offset in `out` of the pixel that a row computes, or kNotStored if that pixel is padding.
  METAL_FUNC uint offset_of(uint row, uint channel, ConvOutput output, ConvSize positions, uint channels) const {
    const ConvPixel pixel = rows.pixel(row);  // past the last image in the last tile
    const bool inside = pixel.image < output.images && pixel.index[0] < positions.size[0] &&
                        pixel.index[1] < positions.size[1] && pixel.index[2] < positions.size[2] && channel < channels;
    const uint offset = pixel.image * output.image_stride + pixel.index[0] * output.stride[0] +
                        pixel.index[1] * output.stride[1] + pixel.index[2] * output.stride[2] +
                        channel * output.channel_stride;
    return inside ? offset : uint(kNotStored);
  }
  // The rows of a tile in a channels-last output (lib/store_rows.h).
  struct PixelRows {
    thread const ConvTensorEpilogue& epilogue;
    TileOffset tile;
    ConvOutput output;
    ConvSize positions;
    uint channels;
    METAL_FUNC device T* row(int r) const {
      const uint offset = epilogue.offset_of(tile.m + uint(r), tile.n, output, positions, channels);
      return offset == kNotStored ? nullptr : epilogue.out + offset;
    }
    METAL_FUNC int columns() const { return int(channels - tile.n); }
    METAL_FUNC long stride() const { return 1; }
    METAL_FUNC bool aligned() const {
      const uint strides = output.image_stride | output.stride[0] | output.stride[1] | output.stride[2] | tile.n;
      return (ulong(epilogue.out) | ulong(strides * sizeof(T))) % 16 == 0;
    }
  };
  template <typename Sum>
  METAL_FUNC void store_pixels(thread Sum& sum, TileOffset tile) const {
    // Copies, because the stores below might alias the parameters.
    const ConvOutput output = p.output;
    const ConvSize positions = part.positions;
    const uint channels = p.N;
    const bool has_bias = p.has_bias;
    if (!GROUPED && output.channel_stride == 1) {
      if (has_bias) transform_tile(sum, tile, AddBias<T>{bias, channels - 1});
      MPSX_STORE_ROWS<T>(sum, PixelRows{*this, tile, output, positions, channels});
      return;
    }
    bool has_nan = false;
    MPSX_UNROLL
    for (ushort i = 0; i < sum.get_capacity(); ++i) {
      const auto at = sum.get_multidimensional_index(i);
      const uint channel = tile.n + uint(at[0]);
      const uint offset = offset_of(tile.m + uint(at[1]), channel, output, positions, channels);
      if (offset != kNotStored && sum.is_valid_element(i))
        out[offset] = T(sum[i] + (has_bias ? float(bias[channel]) : 0.0f));
      if (GROUPED) has_nan = has_nan || is_nan(sum[i]);
    }
    if (GROUPED && has_nan) recompute_nan(sum, tile);
  }
  // The zeros off the diagonal of a matrix turn an infinity or a NaN of one group into NaN in the others. Computes the
  // thread's results that are NaN again, from the channels of their own group.
  template <typename Sum>
  METAL_FUNC void recompute_nan(thread Sum& sum, TileOffset tile) const {
#pragma nounroll
    for (ushort i = 0; i < sum.get_capacity(); ++i) {
      const auto at = sum.get_multidimensional_index(i);
      const uint row = tile.m + uint(at[1]), channel = tile.n + uint(at[0]);
      const uint offset = offset_of(row, channel, p.output, part.positions, p.N);
      if (offset != kNotStored && is_nan(float(out[offset])))
        out[offset] = T(group_sum(row, channel) + (p.has_bias ? float(bias[channel]) : 0.0f));
    }
  }
  METAL_FUNC float group_sum(uint row, uint channel) const {
    constant ConvGroups& group = p.group;
    const uint first = channel / group.outputs * group.channels;
    float total = 0.0f;
    for (uint step = 0; step < part.steps && !is_nan(total); ++step) {
      device const T* const a = left + long(row + p.rows[part.first_step + step]) * p.left_pitch;
      device const T* const b = right + long(step * part.right_row_step + channel) * part.right_pitch;
      for (uint tap = first; tap < part.K; tap += group.padded_channels)
        for (uint fold = 0; fold < group.fold_taps; ++fold)
          for (uint c = 0; c < group.channels; ++c) {
            const uint k = tap + fold * group.matrix_channels + c;
            total += float(a[k]) * float(b[k]);
          }
    }
    return total;
  }
  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, TileOffset tile) const {
    if (p.has_partials)
      sum.store(tensor(partials, dextents<int, 2>(int(p.N), int(p.M)), array<int, 2>{1, int(p.N)})
                    .slice(int(tile.n), int(tile.m)));
    else
      store_pixels(sum, tile);
  }
};
