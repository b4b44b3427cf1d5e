// Sums of products whose operands are boxes of pixels of channels-last images, as in a convolution. Pixels
// outside the images are zero. On Hopper GPUs, TMA loads the boxes (MPSX_MULTIPLY_PIXELS and MPSX_MULTIPLY_OVER_PIXELS
// are then in metal_stdlib/cuda/tensor/multiply_pixels.h). Elsewhere, the threads copy each box to threadgroup memory.
//
// The pixels are rows of the left operand, and the right operand is a StepMatrix or a StepColumns:
//   PixelMatrix<T> left = {data, channels, extent, stride, step, log2_size};
//   threadgroup T memory[Tile::BM * kPixelDepth<T>];
//   MPSX_MULTIPLY_PIXELS(multiply, left, right, steps, memory, g, sums);    // g: a GroupThread
// `steps` is as in multiply_steps.h, but left_row(i) returns the first pixel of the box, a PixelIndex, which may be
// outside the images.
//
// The pixels are K, and the columns of both operands are channels. Product i multiplies the transpose of box i of the
// left operand with box i of the right one:
//   threadgroup T memory[kPixelRows * (Tile::BM + Tile::BN)];
//   MPSX_MULTIPLY_OVER_PIXELS<Tile::BM, Tile::BN>(multiply, left, right, steps, memory, g, sums);
// Each block of kPixelDepth<T> columns of the right operand has its own box and first channel:
//   int count() const, left_column() const, right_column(int block) const;    // the first channels
//   PixelIndex left_row(int i) const, right_row(int i, int block) const;
// A box has kPixelDepth<T> pixels. An infinity in one operand times a zero outside the other operand's image is NaN.
#pragma once

#include "lib/multiply_steps.h"
#include "lib/threadgroup.h"

// Dimensions are numbered like those of a Metal tensor, innermost first: x, y, z, image.
struct PixelIndex {
  int at[4];
};

// Row r is pixel r of the box, x first. The sizes of the box are powers of two. Adjacent pixels of the box are `step`
// pixels of the image apart. Pixels start at multiples of 16 bytes and consist of whole vectors of 16 bytes.
template <typename T>
struct PixelMatrix {
  typedef T value_type;
  device T* data;
  uint channels, extent[4];
  long stride[4];  // in elements
  uint step[4], log2_size[4];

  // Returns where a pixel starts, or null if it is outside the images.
  METAL_FUNC device T* pixel(PixelIndex first, uint row) const {
    long offset = 0;
    bool inside = true;
    MPSX_UNROLL
    for (uint d = 0; d < 4; ++d) {
      const int at = first.at[d] + int((row & ((1u << log2_size[d]) - 1)) * step[d]);
      row >>= log2_size[d];
      offset += at * stride[d];
      inside = inside && uint(at) < extent[d];
    }
    return inside ? data + offset : nullptr;
  }
  METAL_FUNC T element(PixelIndex first, uint row, uint channel) const {
    device T* const from = pixel(first, row);
    return from != nullptr && channel < channels ? from[channel] : T(0);
  }
  // Returns a vector of 16 bytes.
  METAL_FUNC uint4 vector(PixelIndex first, uint row, uint channel) const {
    device T* const from = pixel(first, row);
    return from != nullptr && channel < channels ? *(device const uint4*)(from + channel) : uint4(0);
  }
};

// Channels, or pixels, per copy of a box.
template <typename T>
constexpr constant uint kPixelDepth = 128 / sizeof(T);
enum : uint { kPixelRows = 16 };

template <typename Multiply, typename T, typename Right, typename Steps, typename Sums>
METAL_FUNC void multiply_pixels_in_turn(thread Multiply& multiply, PixelMatrix<T> left, Right right,
                                        thread const Steps& steps, threadgroup T* memory, GroupThread g,
                                        thread Sums& sums) {
  enum : uint { kVec = 16 / sizeof(T), kVectors = 8 };
  const uint log2_rows = left.log2_size[0] + left.log2_size[1] + left.log2_size[2] + left.log2_size[3];
  const uint rows = 1u << log2_rows, depth = uint(steps.depth());
  for (int i = 0; i < steps.count(); ++i)
    for (uint k = 0; k < depth; k += kPixelDepth<T>) {
      tg_barrier();
      for (uint v = g.index; v < rows * kVectors; v += g.count)
        *(threadgroup uint4*)(memory + v * kVec) =
            left.vector(steps.left_row(i), v / kVectors, k + v % kVectors * kVec);
      tg_barrier();
      const uint width = min(kPixelDepth<T>, depth - k);
      auto A = tensor(memory, dextents<int, 2>(int(width), int(rows)), array<int, 2>{1, int(kPixelDepth<T>)});
      auto B = step_operand(right, steps.right_row(i), steps.right_column(i) + int(k), width);
      multiply.run(A, B, sums);
    }
}

template <uint BM, uint BN, typename Multiply, typename T, typename Steps, typename Sums>
METAL_FUNC void multiply_over_pixels_in_turn(thread Multiply& multiply, PixelMatrix<T> left, PixelMatrix<T> right,
                                             thread const Steps& steps, threadgroup T* memory, GroupThread g,
                                             thread Sums& sums) {
  enum : uint { kVec = 16 / sizeof(T), kLeft = BM / kVec, kRight = BN / kVec };
  threadgroup T* const right_memory = memory + kPixelRows * BM;
  for (int i = 0; i < steps.count(); ++i)
    for (uint first = 0; first < kPixelDepth<T>; first += kPixelRows) {
      tg_barrier();
      for (uint v = g.index; v < kPixelRows * kLeft; v += g.count)
        *(threadgroup uint4*)(memory + v * kVec) =
            left.vector(steps.left_row(i), first + v / kLeft, uint(steps.left_column()) + v % kLeft * kVec);
      for (uint v = g.index; v < kPixelRows * kRight; v += g.count) {
        const uint column = v % kRight * kVec, block = column / kPixelDepth<T>;
        *(threadgroup uint4*)(right_memory + v * kVec) =
            right.vector(steps.right_row(i, int(block)), first + v / kRight,
                         uint(steps.right_column(int(block))) + column % kPixelDepth<T>);
      }
      tg_barrier();
      auto A = tensor(memory, dextents<int, 2>(int(BM), int(kPixelRows)), array<int, 2>{1, int(BM)});
      auto B = tensor(right_memory, dextents<int, 2>(int(BN), int(kPixelRows)), array<int, 2>{1, int(BN)});
      multiply.run(A, B, sums);
    }
}
#ifndef MPSX_MULTIPLY_PIXELS
#  define MPSX_MULTIPLY_PIXELS multiply_pixels_in_turn
#  define MPSX_MULTIPLY_OVER_PIXELS multiply_over_pixels_in_turn
#endif
