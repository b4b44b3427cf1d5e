// The zero-padded channels-last copy of the input that conv_gemm_tensor.metal reads.
#pragma once

#include <ATen/ops/empty.h>

#include <array>
#include <vector>

#include "conv/gemm_params.h"
#include "ops/conv/layout.h"

namespace mpsx::ops {

// One spatial dimension of a convolution. For each tap, output i reads input i * stride + tap - padding. Taps are
// nonnegative and in ascending order.
struct ConvAxis {
  int64_t source, padding, positions, stride;
  std::vector<int64_t> taps;
};
using ConvAxes = std::array<ConvAxis, 3>;

// Several rows of taps whose channels are combined into one pixel. `padding`, `stride` and `dilation` apply to rows.
struct ConvFold {
  int64_t taps = 1, padding = 0, stride = 1, dilation = 0;
  bool operator==(const ConvFold&) const = default;
};

// The dimensions of a packed copy. Along the first two dimensions, rows are split into planes by their index modulo the
// stride.
struct PixelGrid {
  int64_t images, channels, padded_channels;
  int64_t padding[3], stride[3];
  int64_t pitch[3];  // outputs along each dimension, including windows that start in the padding
  int64_t plane;     // pixels per plane
  ConvFold fold;

  bool operator==(const PixelGrid&) const = default;
  int64_t row_pixels() const { return pitch[2] * stride[2]; }
  int64_t planes() const { return stride[0] * stride[1]; }
  int64_t pixels() const { return planes() * plane; }
  // Returns the number of windows up to and including that of the last output.
  int64_t windows(const ConvAxes& axes) const {
    return (((images - 1) * pitch[0] + axes[0].positions - 1) * pitch[1] + axes[1].positions - 1) * pitch[2] +
           axes[2].positions;
  }
  // Returns the offset, in pixels, at which a window reads the tap (z, y, x).
  int64_t offset(int64_t z, int64_t y, int64_t x) const {
    const int64_t rows = z / stride[0] * pitch[1] + y / stride[1];
    return (z % stride[0] * stride[1] + y % stride[1]) * plane + rows * row_pixels() + x;
  }
  ConvGrid outputs() const {
    ConvGrid grid{};
    for (int d = 0; d < 3; ++d) grid.pitch[d] = uint32_t(pitch[d]), grid.by[d] = make_fast_divmod(grid.pitch[d]);
    return grid;
  }
};

// Returns a grid that fits all `axes`, which may differ only in their positions and taps. A row's right padding is also
// the left padding of the next row, and likewise for planes and images. If `fold` has several taps, the copy combines
// their rows.
inline PixelGrid make_pixel_grid(int64_t images, int64_t channels, int64_t vec, const std::vector<ConvAxes>& all,
                                 const ConvFold& fold) {
  PixelGrid grid{};
  grid.images = images;
  grid.channels = channels;
  grid.padded_channels = int64_t(ceil_div(fold.taps * channels, vec)) * vec;
  grid.fold = fold;
  int64_t last[3] = {};
  for (int d = 0; d < 3; ++d) {
    const ConvAxis& first = all.front()[d];
    grid.padding[d] = first.padding;
    grid.stride[d] = first.stride;
    int64_t pitch = first.padding + first.source;
    for (const ConvAxes& axes : all) {
      const ConvAxis& axis = axes[d];
      const int64_t reach = (axis.positions - 1) * axis.stride + axis.taps.back() + 1;
      pitch = std::max({pitch, reach - axis.padding, axis.positions * axis.stride});
      last[d] = std::max(last[d], axis.taps.back());
    }
    grid.pitch[d] = int64_t(ceil_div(pitch, first.stride));
  }
  grid.plane = images * grid.pitch[0] * grid.pitch[1] * grid.row_pixels();
  const int64_t rows = last[0] / grid.stride[0] * grid.pitch[1] + last[1] / grid.stride[1];
  for (const ConvAxes& axes : all) {
    const int64_t row_end = (grid.windows(axes) - 1) * grid.stride[2] + last[2] + 1;
    grid.plane = std::max(grid.plane, rows * grid.row_pixels() + row_end);
  }
  grid.plane = int64_t(ceil_div(grid.plane, grid.stride[2])) * grid.stride[2];  // all planes start with a window
  return grid;
}

// Returns whether a tensor of shape [images, channels, D, H, W] already has the grid's layout.
inline bool has_grid_layout(const Tensor& t, const PixelGrid& grid) {
  bool same = grid.fold.taps == 1 && grid.planes() == 1 && grid.padded_channels == grid.channels &&
              grid.pixels() * grid.channels == t.numel() && t.is_contiguous(at::MemoryFormat::ChannelsLast3d) &&
              reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  for (int d = 0; d < 3; ++d) same = same && grid.padding[d] == 0 && t.size(d + 2) == grid.pitch[d] * grid.stride[d];
  return same;
}

// Returns whether the grid consists of the tensor's pixels in the same order, without padding.
inline bool has_grid_pixels(const Tensor& t, const PixelGrid& grid) {
  return grid.fold.taps == 1 && grid.planes() == 1 && grid.padding[0] + grid.padding[1] + grid.padding[2] == 0 &&
         t.size(2) == grid.pitch[0] && t.size(3) == grid.pitch[1] && t.size(4) == grid.row_pixels() &&
         t.stride(3) == t.size(4) * t.stride(4) && t.stride(2) == t.size(3) * t.stride(3);
}

// A tensor, and its packed copy, which is undefined if none was made. Without a grid, the copy is a channels-last
// tensor of shape [images, channels, D, H, W].
struct PackedPixels {
  Tensor source, pixels;
  PixelGrid grid{};

  bool is_channels_last() const { return pixels.defined() && grid.images == 0; }
  // Returns the copy if it has this grid, or else an undefined tensor.
  Tensor with_grid(const PixelGrid& wanted) const { return grid == wanted ? pixels : Tensor(); }
  // Returns the part of the copy that starts with the first pixel after the padding, if it has the layout of `wanted`,
  // a grid without padding at the start of its rows, or else an undefined tensor.
  Tensor without_padding(const PixelGrid& wanted, int64_t count) const {
    bool same = pixels.defined() && grid.planes() == 1 && grid.stride[2] == 1 && grid.fold.taps == 1 &&
                grid.images == wanted.images && grid.padded_channels == wanted.padded_channels;
    for (int d = 0; d < 3; ++d) same = same && grid.pitch[d] == wanted.pitch[d];
    if (!same) return Tensor();
    const int64_t first = grid.offset(grid.padding[0], grid.padding[1], grid.padding[2]), width = grid.padded_channels;
    if (first + count > grid.pixels()) return Tensor();
    return pixels.as_strided({count, width}, {width, 1}, pixels.storage_offset() + first * width);
  }
};

// Returns the largest number of adjacent pixels (4, 2 or 1) such that vectors of them fill the rows of a tensor.
inline int64_t pixels_per_vector(const Tensor& t) {
  const int64_t size = t.element_size();
  int64_t bits = t.size(4) | t.stride(0) | t.stride(1) | t.stride(2) | t.stride(3);
  bits |= int64_t(reinterpret_cast<uintptr_t>(t.const_data_ptr())) / size;
  return t.stride(4) != 1 ? 1 : bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

// Copies a tensor of shape [images, groups * channels, D, H, W] to the grid, one group of channels after the other.
// Returns the tensor itself if it already has the grid's layout.
inline Tensor pack_pixels(const Tensor& t, const PixelGrid& grid, int64_t groups = 1) {
  static const KernelSet tiled("conv_pack_tensor"), vectors("conv_pack_vectors_tensor");
  static const KernelSet rows2("conv_pack_rows2_tensor"), rows4("conv_pack_rows4_tensor");
  if (groups == 1 && has_grid_layout(t, grid)) return t;
  if (t.stride(4) == 1 && t.size(2) * t.size(3) > 1 && has_grid_pixels(t, grid)) {  // all pixels of an image are a row
    const int64_t pixels = spatial_size(t);
    const PixelGrid row{grid.images, grid.channels,  grid.padded_channels, {},
                        {1, 1, 1},   {1, 1, pixels}, grid.plane,           {}};
    return pack_pixels(
        strided_view(t, {t.size(0), t.size(1), 1, 1, pixels}, {t.stride(0), t.stride(1), pixels, pixels, 1}), row,
        groups);
  }
  const int64_t size = t.element_size(), vec = 16 / size;
  const Tensor out = at::empty({groups * grid.pixels(), grid.padded_channels}, t.options().memory_format(std::nullopt));
  ConvPackParams p{};
  p.image_stride = t.stride(0);
  p.channel_stride = t.stride(1);
  for (int d = 0; d < 3; ++d) {
    p.source_stride[d] = t.stride(d + 2);
    p.source[d] = uint32_t(t.size(d + 2));
    p.padding[d] = int32_t(grid.padding[d]);
    p.stride[d] = d == 2 ? 1 : int32_t(grid.stride[d]);
  }
  p.planes[0] = uint32_t(grid.stride[0]);
  p.planes[1] = uint32_t(grid.stride[1]);
  p.plane_pixels = uint32_t(grid.plane);
  p.pixels = uint32_t(grid.pixels());
  p.images = uint32_t(grid.images);
  p.channels = uint32_t(grid.channels);
  p.padded_channels = uint32_t(grid.padded_channels);
  p.fold_taps = uint32_t(grid.fold.taps);
  p.by_plane = make_fast_divmod(p.plane_pixels);
  p.by_planes = make_fast_divmod(p.planes[1]);
  p.by_channels = make_fast_divmod(p.channels);
  p.by_vectors = make_fast_divmod(uint32_t(grid.padded_channels / vec));
  p.grid = grid.outputs();
  p.grid.pitch[2] = uint32_t(grid.row_pixels());
  p.grid.by[2] = make_fast_divmod(p.grid.pitch[2]);
  if (grid.fold.taps > 1) {
    p.padding[1] = int32_t(grid.fold.padding);
    p.stride[1] = int32_t(grid.fold.stride);
    p.fold_dilation = uint32_t(grid.fold.dilation);
  }
  bool aligned = grid.fold.taps == 1 && grid.padded_channels == grid.channels &&
                 is_vectorizable(t.const_data_ptr(), size_t(size), t.stride(4), t.stride(1), t.stride(0)) &&
                 t.stride(1) == 1;
  for (int d = 2; d < 4; ++d) aligned = aligned && t.stride(d) % vec == 0;
  const int64_t row_vec = grid.fold.taps > 1 ? 1 : pixels_per_vector(t), source_pixels = t.size(0) * spatial_size(t);
  Launch l((aligned ? vectors : row_vec == 4 ? rows4 : row_vec == 2 ? rows2 : tiled).get(tag_of(t)));
  l.outputs(out).inputs(t).bytes(p);
  const auto channel_tiles = uint32_t(ceil_div(p.padded_channels * size, kPackBytes));
  if (aligned) {
    l.threads(uint64_t(out.numel() / vec / groups), uint64_t(groups)).work(uint64_t(vec));
  } else if (row_vec > 1) {
    p.vectors = uint32_t(source_pixels / row_vec);
    p.row_vectors = uint32_t(t.size(4) / row_vec);
    p.source_tiles = uint32_t(ceil_div(source_pixels, kPackPixels));
    p.by_row_vectors = make_fast_divmod(p.row_vectors);
    for (int d = 0; d < 2; ++d) {
      p.by_source[d] = make_fast_divmod(p.source[d]);
      p.by_stride[d] = make_fast_divmod(p.planes[d]);
    }
    const bool has_padding = p.pixels > source_pixels;
    l.groups({p.source_tiles + uint32_t(has_padding ? ceil_div(p.pixels, kClearPixels) : 0), channel_tiles,
              uint32_t(groups)})
        .work(kPackPixels * kPackBytes / size);
  } else {
    l.groups({uint32_t(ceil_div(p.pixels, kPackPixels)), channel_tiles, uint32_t(groups)})
        .work(kPackPixels * kPackBytes / size);
  }
  l.run();
  return out;
}

// Returns a channels-last copy of a tensor of shape [images, channels, D, H, W], whose channels are whole vectors.
inline Tensor copy_channels_last(const Tensor& t) {
  const int64_t channels = t.size(1), D = t.size(2), H = t.size(3), W = t.size(4);
  const PixelGrid grid{t.size(0), channels, channels, {}, {1, 1, 1}, {D, H, W}, t.numel() / channels, {}};
  return pack_pixels(t, grid).view({t.size(0), D, H, W, channels}).movedim(-1, 1);
}

}  // namespace mpsx::ops
