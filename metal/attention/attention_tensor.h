// Multiplies attention's fragments with Metal 4's matmul2d. Each lane holds elements of the same rows as on the
// simdgroup tier.
#pragma once

#include "attention/attention.h"
#include "lib/tensor_fragments.h"

template <typename T>
struct TensorFragments {
  typedef Fragment8x16<T> Operand;
  typedef Fragment8x16<float> Accumulator;
  enum : uint { elements = 4 };
};

// S = A B^T, with A in fragments and B in threadgroup memory.
template <typename Shape, typename T>
METAL_FUNC void compute_scores(thread Fragment8x16<float> (&S)[Shape::row_fragments][Shape::column_fragments],
                               thread const Fragment8x16<T> (&A)[Shape::row_fragments][Shape::dim_fragments],
                               threadgroup const T* B, uint lane) {
#pragma unroll
  for (uint j = 0; j < Shape::column_fragments; j += 2) {
#pragma unroll
    for (uint i = 0; i < Shape::row_fragments; i += 2) {
#pragma unroll
      for (uint n = 0; n < 4; ++n) clear_fragment(S[i + n % 2][j + n / 2]);
#pragma unroll
      for (uint k = 0; k < Shape::dim_fragments; ++k) {
        const Fragment8x16<T> a[2] = {A[i][k], A[i + 1][k]};
        Fragment8x16<T> b[4];
#pragma unroll
        for (uint n = 0; n < 4; ++n)
          load_fragment(b[n], B + (j * 16 + n * 8) * Shape::stride + k * 16, Shape::stride, lane);
        multiply_fragments<true>(S[i][j], S[i + 1][j], S[i][j + 1], S[i + 1][j + 1], a, b);
      }
    }
  }
}

// acc += P B, for example O += P V, where P is first rounded to the element type.
template <typename Shape, typename T>
METAL_FUNC void accumulate(thread Fragment8x16<float> (&acc)[Shape::row_fragments][Shape::dim_fragments],
                           thread const Fragment8x16<float> (&P)[Shape::row_fragments][Shape::column_fragments],
                           threadgroup const T* B, uint lane) {
#pragma unroll
  for (uint e = 0; e < Shape::dim_fragments; e += 2)
#pragma unroll
    for (uint j = 0; j < Shape::column_fragments; ++j) {
      Fragment8x16<T> b[4];
#pragma unroll
      for (uint n = 0; n < 4; ++n)
        load_fragment(b[n], B + (j * 16 + n % 2 * 8) * Shape::stride + (e + n / 2) * 16, Shape::stride, lane);
#pragma unroll
      for (uint i = 0; i < Shape::row_fragments; i += 2) {
        const Fragment8x16<T> a[2] = {{vec<T, 4>(P[i][j].elements)}, {vec<T, 4>(P[i + 1][j].elements)}};
        multiply_fragments<false>(acc[i][e], acc[i + 1][e], acc[i][e + 1], acc[i + 1][e + 1], a, b);
      }
    }
}
