// One SIMD group multiplies cooperative tensors by element index, relying on the layout of an M5 (docs/tensors.md).
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

// Returns the column and row in memory of a lane's element i. COLUMNS is the number of fragments per row of the matrix
// that is multiplied. In a matrix that is stored transposed, fragment 1 is below fragment 0 in memory.
template <int COLUMNS, bool TRANSPOSED>
short2 coordinates_of(short i, ushort lane) {
  const short q = lane >> 2, fragment = i / 8;
  const short2 corner = short2(fragment % COLUMNS, fragment / COLUMNS) * 16;
  const short2 inside = short2(((q & 2) | (lane & 1)) * 4 + i % 4, ((q & 4) | (lane >> 1 & 3)) + i / 4 % 2 * 8);
  return (TRANSPOSED ? corner.yx : corner) + inside;
}

// C = op(A) op(B). A letter per operand says where it is: in a cooperative tensor (C) or in memory (M).
enum Where { CC, CM, MC, MM };
template <class T, class R, int M, int N, int K, bool TA, bool TB, Where WHERE>
kernel void matmul(device T* a, device T* b, device R* c, ushort lane [[thread_index_in_simdgroup]]) {
  constexpr auto descriptor = matmul2d_descriptor(M, N, K, TA, TB);
  matmul2d<descriptor, execution_simdgroup> op;
  const short a_width = TA ? M : K, b_width = TB ? K : N;
  auto A = tensor(a, dextents<int, 2>(a_width, TA ? K : M)), B = tensor(b, dextents<int, 2>(b_width, TB ? N : K));
  auto left = op.template get_left_input_cooperative_tensor<T, T, R>();
  auto right = op.template get_right_input_cooperative_tensor<T, T, R>();
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), R>();
  for (short i = 0; i < left.get_capacity(); ++i) {
    const short2 at = coordinates_of<K / 16, TA>(i, lane);
    left[i] = a[at.y * a_width + at.x];
  }
  for (short i = 0; i < right.get_capacity(); ++i) {
    const short2 at = coordinates_of<N / 16, TB>(i, lane);
    right[i] = b[at.y * b_width + at.x];
  }
  if (WHERE == CC) op.run(left, right, sum);
  if (WHERE == CM) op.run(left, B, sum);
  if (WHERE == MC) op.run(A, right, sum);
  if (WHERE == MM) op.run(A, B, sum);
  for (short i = 0; i < sum.get_capacity(); ++i) {
    const short2 at = coordinates_of<N / 16, false>(i, lane);
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

// Converts a destination to operands of operations that transpose them, and writes these operands to a and b. Apple's
// compiler does not convert to operands that are transposed.
template <int M, int N>
kernel void conversions(device half* x, device half* a, device half* b) {
  constexpr auto first = matmul2d_descriptor(M, N, 16), left = matmul2d_descriptor(N, 16, M, true),
                 right = matmul2d_descriptor(16, M, N, false, true);
  matmul2d<first, execution_simdgroup> op;
  matmul2d<left, execution_simdgroup, mpsx::more_cooperative_operands> left_op;
  matmul2d<right, execution_simdgroup, mpsx::more_cooperative_operands> right_op;
  typedef tensor<device half, dextents<int, 2>, tensor_inline> operand;
  auto sum = op.template get_destination_cooperative_tensor<operand, operand, half>();
  sum.load(operand(x, dextents<int, 2>(N, M)));
  auto A = left_op.template get_left_input_cooperative_tensor<half, half, float>(sum);
  auto B = right_op.template get_right_input_cooperative_tensor<half, half, float>(sum);
  A.store(operand(a, dextents<int, 2>(N, M)));
  B.store(operand(b, dextents<int, 2>(N, M)));
}

// Writes the sums of the rows of x, and whether a tensor with WIDTH columns of x can map them. If so, adds them to it.
template <int M, int N, int WIDTH>
kernel void row_sums(device float* x, device float* sums, device float* y, device int* compatible) {
  constexpr auto first = matmul2d_descriptor(M, N, 16), second = matmul2d_descriptor(M, WIDTH, 16);
  matmul2d<first, execution_simdgroup> op;
  matmul2d<second, execution_simdgroup> other;
  typedef tensor<device half, dextents<int, 2>, tensor_inline> operand;
  auto all = op.template get_destination_cooperative_tensor<operand, operand, float>();
  auto part = other.template get_destination_cooperative_tensor<operand, operand, float>();
  auto total = op.template get_row_reduction_destination_cooperative_tensor<operand, operand, float>();
  all.load(tensor(x, dextents<int, 2>(N, M)));
  part.load(tensor(x, dextents<int, 2>(WIDTH, M), array<int, 2>{1, N}));
  reduce_rows(all, total, reduction_operation::sum, 0.0f);
  total.store(tensor(sums, dextents<int, 1>(M)));
  *compatible = is_iterator_compatible(part, total);
  if (is_iterator_compatible(part, total))
    for (auto it = part.begin(); it != part.end(); ++it)
      if (it.is_valid_element()) *it += *total.map_iterator(it);
  part.store(tensor(y, dextents<int, 2>(WIDTH, M)));
}

struct Target {
  int columns, rows, stride;
};
template <class T>
kernel void copy_tile(device T* x, device T* y, constant Target& target) {
  constexpr auto descriptor = matmul2d_descriptor(32, 32, 32);
  matmul2d<descriptor, execution_simdgroup> op;
  auto tile = op.template get_left_input_cooperative_tensor<T, T, float>();
  tile.load(tensor(x, dextents<int, 2>(32, 32)));
  tile.store(tensor(y, dextents<int, 2>(target.columns, target.rows), array<int, 2>{1, target.stride}));
}
