// A sum of products whose operands are parts of the same two matrices, such as the rows of taps of a convolution. On
// NVIDIA GPUs, each matmul2d::run() builds tensor maps and fills a pipeline of loads, which takes as long as
// multiplying several tiles. There, all products share the maps and the pipeline (MPSX_MULTIPLY_STEPS is then
// metal_stdlib/cuda/tensor/multiply_steps.h). Apple's runs have no such cost and follow each other.
//
//   StepMatrix<T> left = {data, pitch, width, rows}, right = …;
//   MPSX_MULTIPLY_STEPS(multiply, left, right, steps, sums);    // adds to `sums`; all threads of the scope call it
//
// `steps` describes the products. Product i multiplies depth() columns of the left matrix, from column 0 and row
// left_row(i) on, with the transpose of depth() columns of the right matrix, from right_column(i) and right_row(i) on:
//   int count() const, depth() const, left_row(int i) const, right_row(int i) const, right_column(int i) const;
// `multiply` accumulates and has the right operand transposed. The left matrix has depth() columns, and so has the
// right one unless depth() is a multiple of 128 bytes: a tile of K may go past depth(), where it has to read zeros.
#pragma once

#include "lib/tensor_gemm.h"

// Rows of `width` contiguous elements. The rows start `pitch` elements apart, at multiples of 16 bytes, and may
// overlap.
template <typename T>
struct StepMatrix {
  device T* data;
  long pitch;
  uint width, rows;
};

// Returns `width` columns of a matrix from `column` and `row` on.
template <typename T>
METAL_FUNC auto step_operand(StepMatrix<T> matrix, int row, int column, uint width) {
  return tensor(matrix.data + (row * matrix.pitch + column), dextents<int, 2>(int(width), int(matrix.rows) - row),
                array<int, 2>{1, int(matrix.pitch)});
}

// The transpose of such a matrix: `rows` steps of K, with `width` contiguous elements each. For operands of `multiply`
// that are not transposed.
template <typename T>
struct StepColumns {
  device T* data;
  long pitch;
  uint width, rows;
};
template <typename T>
METAL_FUNC auto step_operand(StepColumns<T> matrix, int row, int column, uint) {
  return tensor(matrix.data + (column * matrix.pitch + row),
                dextents<int, 2>(int(matrix.width) - row, int(matrix.rows) - column),
                array<int, 2>{1, int(matrix.pitch)});
}

template <typename Multiply, typename T, typename Steps, typename Sums>
METAL_FUNC void multiply_steps_in_turn(thread Multiply& multiply, StepMatrix<T> left, StepMatrix<T> right,
                                       thread const Steps& steps, thread Sums& sums) {
  const uint depth = uint(steps.depth());
  for (int i = 0; i < steps.count(); ++i) {
    auto A = step_operand(left, steps.left_row(i), 0, depth);
    auto B = step_operand(right, steps.right_row(i), steps.right_column(i), depth);
    multiply.run(A, B, sums);
  }
}
#ifndef MPSX_MULTIPLY_STEPS
#  define MPSX_MULTIPLY_STEPS multiply_steps_in_turn
#endif
