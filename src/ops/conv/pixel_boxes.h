// Convolutions that read channels-last tensors in place, in boxes of pixels (metal/conv/conv_pixels_tensor.metal).
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "ops/conv/pixel_grid.h"

namespace mpsx::ops {

// Boxes of powers of two, and how many of them cover the outputs. Dimensions are x, y, z, images.
struct PixelBoxes {
  std::array<uint32_t, 4> log2_size, count;
  uint64_t total = std::numeric_limits<uint64_t>::max();
};

// The outputs of a convolution along x, y, z, and images, and its stride along them.
struct BoxedOutputs {
  std::array<int64_t, 4> size, stride;
  bool operator==(const BoxedOutputs&) const = default;

  // Returns the boxes of `pixels` outputs that cover all outputs with the fewest boxes, and among those, the longest
  // along x. A box spans at most 256 pixels of the input along each dimension, because TMA loads at most as many.
  //
  // Remembers results: a convolution asks up to twelve times, and a search takes 0.3 us.
  PixelBoxes boxes(uint32_t pixels) const {
    struct Known {
      BoxedOutputs outputs;
      uint32_t pixels = 0;
      PixelBoxes boxes;
    };
    constexpr size_t kKnown = 256;
    thread_local std::array<Known, kKnown> known;
    size_t hash = pixels;
    for (size_t d = 0; d < 4; ++d) hash = hash * 31 + size_t(size[d]) * 5 + size_t(stride[d]);
    Known& k = known[hash % kKnown];
    if (k.pixels != pixels || k.outputs != *this) k = {*this, pixels, fewest_boxes(pixels)};
    return k.boxes;
  }

 private:
  PixelBoxes fewest_boxes(uint32_t pixels) const {
    constexpr int64_t kLargest = 256;
    PixelBoxes best, boxes;
    auto& log2 = boxes.log2_size;
    const auto fits = [&](int d) { return (stride[d] << log2[d]) <= kLargest; };
    const auto log2_pixels = uint32_t(__builtin_ctz(pixels));
    for (uint32_t x = log2_pixels + 1; x-- > 0;)
      for (uint32_t y = log2_pixels - x + 1; y-- > 0;)
        for (uint32_t z = 0; z <= log2_pixels - x - y; ++z) {
          log2 = {x, y, z, log2_pixels - x - y - z};
          if (!fits(0) || !fits(1) || !fits(2) || (z > 0 && size[2] <= (int64_t(1) << (z - 1)))) break;
          boxes.total = 1;
          for (size_t d = 0; d < 4; ++d) {
            boxes.count[d] = uint32_t((size[d] + (int64_t(1) << log2[d]) - 1) >> log2[d]);
            boxes.total *= boxes.count[d];
          }
          if (boxes.total < best.total) best = boxes;
        }
    return best;
  }
};

// Returns whether the kernels can read groups of `channels` of a tensor of shape [images, channels, D, H, W] in place:
// its channels are contiguous, and pixels start at multiples of 16 bytes.
inline bool has_readable_pixels(const Tensor& t, int64_t channels) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t vec = 16 / int64_t(t.element_size());
  bool readable = t.stride(1) == 1 && channels % vec == 0 && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  for (int64_t d = 0; d < 5; ++d) {
    readable = readable && t.size(d) <= kMost;
    if (d != 1 && t.size(d) > 1)
      readable = readable && t.stride(d) % vec == 0 && t.stride(d) > 0 && t.stride(d) <= kMost;
  }
  return readable;
}

// Returns the layout of a tensor of shape [images, channels, D, H, W].
inline ConvPixels pixels_of(const Tensor& t, int64_t channels) {
  ConvPixels pixels{{}, {}, uint32_t(channels)};
  for (int64_t d = 0; d < 4; ++d) {
    const int64_t dim = d < 3 ? 4 - d : 0;
    pixels.size[d] = uint32_t(t.size(dim));
    pixels.stride[d] = t.size(dim) > 1 ? t.stride(dim) : 16;  // TMA requires multiples of 16 bytes
  }
  return pixels;
}

// A weight gradient in place: pixels per box, and columns per tap, in whole blocks (metal/lib/multiply_pixels.h).
inline uint32_t weight_box_pixels(size_t element_size) { return uint32_t(128 / element_size); }
inline int64_t weight_pixel_columns(int64_t channels, size_t element_size) {
  const int64_t block = 128 / int64_t(element_size);
  return int64_t(ceil_div(channels, block)) * block;
}

// Sets the boxes, but not the pixels that taps read.
inline void set_boxes(ConvBoxes& to, const PixelBoxes& boxes, const BoxedOutputs& outputs) {
  for (size_t d = 0; d < 4; ++d) {
    to.log2_size[d] = boxes.log2_size[d];
    to.stride[d] = uint32_t(outputs.stride[d]);
    if (d == 3) continue;
    to.grid.pitch[2 - d] = boxes.count[d];
    to.grid.by[2 - d] = make_fast_divmod(boxes.count[d]);
  }
}
// Sets the pixel that output 0 reads for a tap, whose indices among the taps of the axes are z, y, and x.
inline void set_first_pixel(int32_t (&to)[3], const ConvAxes& axes, size_t z, size_t y, size_t x) {
  const size_t taps[] = {x, y, z};
  for (size_t d = 0; d < 3; ++d) to[d] = int32_t(axes[2 - d].taps[taps[d]] - axes[2 - d].padding);
}

}  // namespace mpsx::ops
