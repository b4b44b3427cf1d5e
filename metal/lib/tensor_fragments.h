// Fragments of Metal 4's matmul2d, for a 16 x 32 x 16 multiplication by one SIMD group. Kernels on the tensor tier use
// them if they stage operands in threadgroup memory. In a 16 x 16 fragment, a lane holds four adjacent columns of rows
// r and r + 8 (docs/tensors.md). A Fragment8x16 is its upper or lower half.
#pragma once

// Apple's headers must be included in this order: metal_stdlib, metal_tensor, MetalPerformancePrimitives.
// clang-format off
#include "lib/gemm.h"
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
// clang-format on

using namespace mpp::tensor_ops;

enum : int { kFragmentRows = 16, kFragmentColumns = 32, kFragmentK = 16 };  // matmul2d's m, n and k

template <typename T>
struct Fragment8x16 {
  vec<T, 4> elements;
  METAL_FUNC thread vec<T, 4>& thread_elements() { return elements; }
};
// The row, and the first of the four columns, that a lane holds.
inline uint fragment_row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
inline uint fragment_column(uint lane) { return ((lane / 4 & 2) + lane % 2) * 4; }
// Returns the offset of a lane's elements within a fragment in threadgroup memory.
inline uint fragment_offset(uint lane, uint stride) { return fragment_row(lane) * stride + fragment_column(lane); }
template <typename T>
METAL_FUNC void load_fragment(thread Fragment8x16<T>& to, threadgroup const T* from, uint stride, uint lane) {
  to.elements = *(threadgroup const vec<T, 4>*)(from + fragment_offset(lane, stride));
}
METAL_FUNC void clear_fragment(thread Fragment8x16<float>& sum) { sum.elements = float4(0.0f); }

// Adds A B to the sums. A is 16 x 16. B is 16 x 32, or stored as 32 x 16 if TRANSPOSE_B. The fragments of a matrix are
// ordered by 16 x 16 block, with the upper half of each block first.
template <bool TRANSPOSE_B, typename T>
METAL_FUNC void multiply_fragments(thread Fragment8x16<float>& sum0, thread Fragment8x16<float>& sum1,
                                   thread Fragment8x16<float>& sum2, thread Fragment8x16<float>& sum3,
                                   thread const Fragment8x16<T> (&a)[2], thread const Fragment8x16<T> (&b)[4]) {
  constexpr auto descriptor = matmul2d_descriptor(kFragmentRows, kFragmentColumns, kFragmentK, false, TRANSPOSE_B,
                                                  false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<descriptor, execution_simdgroup> multiply;
  auto left = multiply.template get_left_input_cooperative_tensor<T, T, float>();
  auto right = multiply.template get_right_input_cooperative_tensor<T, T, float>();
  auto acc = multiply.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
#pragma unroll
  for (ushort n = 0; n < 8; ++n) left[n] = a[n / 4].elements[n % 4];
#pragma unroll
  for (ushort n = 0; n < 16; ++n) right[n] = b[n / 4].elements[n % 4];
#pragma unroll
  for (ushort n = 0; n < 4; ++n) {
    acc[n] = sum0.elements[n];
    acc[4 + n] = sum1.elements[n];
    acc[8 + n] = sum2.elements[n];
    acc[12 + n] = sum3.elements[n];
  }
  multiply.run(left, right, acc);
#pragma unroll
  for (ushort n = 0; n < 4; ++n) {
    sum0.elements[n] = acc[n];
    sum1.elements[n] = acc[4 + n];
    sum2.elements[n] = acc[8 + n];
    sum3.elements[n] = acc[12 + n];
  }
}

struct TensorTier {};
template <typename T>
using TensorTile64 = GemmShape<T, kTile64, kTile64, 2, 2, kTile64Threads, TensorTier>;

template <typename Shape>
struct GemmAccumulators<Shape, TensorTier> {
  typedef typename Shape::type T;
  enum : uint { TM = Shape::SM / 8, TN = Shape::SN / 16, kTwoLevels = 0 };
  Fragment8x16<float> acc[TM][TN];

  METAL_FUNC void clear() {
#pragma unroll
    for (uint i = 0; i < TM; ++i)
#pragma unroll
      for (uint j = 0; j < TN; ++j) clear_fragment(acc[i][j]);
  }
  METAL_FUNC void multiply(threadgroup const T* a, threadgroup const T* b, uint lane) {
#pragma unroll
    for (uint k = 0; k < Shape::BK; k += kFragmentK)
#pragma unroll
      for (uint j = 0; j < TN; j += 2) {
        Fragment8x16<T> b_frag[4];
#pragma unroll
        for (uint n = 0; n < 4; ++n)
          load_fragment(b_frag[n], b + (j * 16 + n * 8) * Shape::stride + k, Shape::stride, lane);
#pragma unroll
        for (uint i = 0; i < TM; i += 2) {
          Fragment8x16<T> a_frag[2];
#pragma unroll
          for (uint n = 0; n < 2; ++n)
            load_fragment(a_frag[n], a + (i + n) * 8 * Shape::stride + k, Shape::stride, lane);
          multiply_fragments<true>(acc[i][j], acc[i + 1][j], acc[i][j + 1], acc[i + 1][j + 1], a_frag, b_frag);
        }
      }
  }
  METAL_FUNC void add_partials() {}
  METAL_FUNC void store_rows(uint i, threadgroup float* out, uint stride, uint lane) {
#pragma unroll
    for (uint j = 0; j < TN; ++j)
      *(threadgroup float4*)(out + fragment_offset(lane, stride) + j * 16) = acc[i][j].elements;
  }
};
