// One SIMD group multiplies cooperative tensors by element index, relying on the layout of an M5 (docs/tensors.md).
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

// The row and column in memory of a lane's element i. The matrix has ACROSS fragments per row. If TRANSPOSED, it is
// stored transposed: its fragments keep their order, and each of them is transposed.
template <int ACROSS, bool TRANSPOSED>
short2 place(short i, ushort lane) {
  const short q = lane >> 2, fragment = i / 8;
  const short2 corner = short2(fragment % ACROSS, fragment / ACROSS) * 16;
  const short2 inside = short2(((q & 2) | (lane & 1)) * 4 + i % 4, ((q & 4) | (lane >> 1 & 3)) + i / 4 % 2 * 8);
  return (TRANSPOSED ? corner.yx : corner) + inside;
}

// C = op(A) op(B). A letter per operand says where it is: in a cooperative tensor (C) or in memory (M).
enum Where { CC, CM, MC, MM };
template <class T, class R, int M, int N, int K, bool TA, bool TB, Where WHERE>
kernel void product(device T* a, device T* b, device R* c, ushort lane [[thread_index_in_simdgroup]]) {
  constexpr auto descriptor = matmul2d_descriptor(M, N, K, TA, TB);
  matmul2d<descriptor, execution_simdgroup> op;
  const short a_width = TA ? M : K, b_width = TB ? K : N;
  auto A = tensor(a, dextents<int, 2>(a_width, TA ? K : M)), B = tensor(b, dextents<int, 2>(b_width, TB ? N : K));
  auto left = op.template get_left_input_cooperative_tensor<T, T, R>();
  auto right = op.template get_right_input_cooperative_tensor<T, T, R>();
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), R>();
  for (short i = 0; i < left.get_capacity(); ++i) {
    const short2 at = place<K / 16, TA>(i, lane);
    left[i] = a[at.y * a_width + at.x];
  }
  for (short i = 0; i < right.get_capacity(); ++i) {
    const short2 at = place<N / 16, TB>(i, lane);
    right[i] = b[at.y * b_width + at.x];
  }
  if (WHERE == CC) op.run(left, right, sum);
  if (WHERE == CM) op.run(left, B, sum);
  if (WHERE == MC) op.run(A, right, sum);
  if (WHERE == MM) op.run(A, B, sum);
  for (short i = 0; i < sum.get_capacity(); ++i) {
    const short2 at = place<N / 16, false>(i, lane);
    c[at.y * N + at.x] = sum[i];
  }
}

// Writes the coordinates of each lane's elements of the destination and both operands.
template <int M, int N, int K, bool TA, bool TB>
kernel void coordinates(device short2* c, device short2* a, device short2* b,
                        ushort lane [[thread_index_in_simdgroup]]) {
  constexpr auto descriptor = matmul2d_descriptor(M, N, K, TA, TB);
  matmul2d<descriptor, execution_simdgroup> op;
  auto left = op.template get_left_input_cooperative_tensor<half, half, float>();
  auto right = op.template get_right_input_cooperative_tensor<half, half, float>();
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  const auto write = [&](thread const auto& from, device short2* to) {
    for (short i = 0; i < from.get_capacity(); ++i) {
      const auto at = from.get_multidimensional_index(i);
      to[lane * from.get_capacity() + i] = short2(at[0], at[1]);
    }
  };
  write(sum, c), write(left, a), write(right, b);
}
