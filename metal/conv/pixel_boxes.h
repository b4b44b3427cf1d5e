// Boxes of pixels of channels-last tensors, which convolutions read without copying them.
#pragma once

#include "conv/pixels.h"
#include "lib/multiply_pixels.h"

// Returns a tensor's pixels. `strided`: it is the convolution's input, so that a box's pixels are a stride apart.
template <typename T>
METAL_FUNC PixelMatrix<T> pixel_matrix(device T* data, constant ConvPixels& from, constant ConvBoxes& boxes,
                                       bool strided) {
  PixelMatrix<T> matrix = {data, from.channels, {}, {}, {}, {}};
  MPSX_UNROLL
  for (uint d = 0; d < 4; ++d) {
    matrix.extent[d] = from.size[d];
    matrix.stride[d] = from.stride[d];
    matrix.step[d] = strided ? boxes.stride[d] : 1;
    matrix.log2_size[d] = boxes.log2_size[d];
  }
  return matrix;
}

// The first output of a box.
METAL_FUNC PixelIndex first_output(uint box, constant ConvBoxes& boxes) {
  const ConvPixel at = pixel_of(box, boxes.grid);
  return {{int(at.index[2] << boxes.log2_size[0]), int(at.index[1] << boxes.log2_size[1]),
           int(at.index[0] << boxes.log2_size[2]), int(at.image << boxes.log2_size[3])}};
}
// The pixel of the input that output 0 reads for a tap.
METAL_FUNC PixelIndex first_pixel(uint tap, constant ConvBoxes& boxes) {
  return {{boxes.first[tap][0], boxes.first[tap][1], boxes.first[tap][2], 0}};
}
// The pixel of the input that an output reads for the tap whose first pixel is `first`.
METAL_FUNC PixelIndex tap_pixel(PixelIndex output, PixelIndex first, constant ConvBoxes& boxes) {
  MPSX_UNROLL
  for (uint d = 0; d < 3; ++d) output.at[d] = output.at[d] * int(boxes.stride[d]) + first.at[d];
  return output;
}
