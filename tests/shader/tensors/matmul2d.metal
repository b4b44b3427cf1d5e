// Kernels for test_matmul2d.py. They use matmul2d with every kind of operand. Each threadgroup computes an M x N tile
// of C.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int m, n, k, lda, ldb, ldc;
};

typedef dextents<int, 2> sizes_2d;

template <bool TRANSPOSE_A, bool TRANSPOSE_B, class A, class B>
struct Operands {
  tensor<device A, sizes_2d, tensor_inline> a;
  tensor<device B, sizes_2d, tensor_inline> b;
  Operands(device A* pa, device B* pb, constant Sizes& s, int row, int column)
      : a(tensor(pa, TRANSPOSE_A ? sizes_2d(s.m, s.k) : sizes_2d(s.k, s.m), array<int, 2>{1, s.lda})
              .slice(TRANSPOSE_A ? row : 0, TRANSPOSE_A ? 0 : row)),
        b(tensor(pb, TRANSPOSE_B ? sizes_2d(s.k, s.n) : sizes_2d(s.n, s.k), array<int, 2>{1, s.ldb})
              .slice(TRANSPOSE_B ? 0 : column, TRANSPOSE_B ? column : 0)) {}
};

// Stores the result of an operation to a tensor of another element type. An operation's cooperative tensors have the
// same layout in all element types (PyTorch's Metal 4 kernels rely on it, too).
template <class Left, class Right, class Operation, class Sum, class Target>
void store_converted(thread const Operation& op, thread const Sum& sum, thread const Target& target) {
  auto result = op.template get_destination_cooperative_tensor<Left, Right, typename Target::value_type>();
#pragma unroll
  for (ushort i = 0; i < sum.get_capacity(); ++i) result[i] = typename Target::value_type(sum[i]);
  result.store(target);
}

// Accumulates in a cooperative destination and adds a bias to each column.
template <class A, class B, class S, class C, int M, int N, bool TA, bool TB, class Scope>
kernel void cooperative(device A* a, device B* b, device C* c, constant Sizes& s, device float* bias,
                        uint2 group [[threadgroup_position_in_grid]]) {
  constexpr auto what = matmul2d_descriptor(M, N, static_cast<int>(dynamic_extent), TA, TB);
  matmul2d<what, Scope> op;
  const int row = group.y * M, column = group.x * N;
  Operands<TA, TB, A, B> in(a, b, s, row, column);
  auto out = tensor(c, sizes_2d(s.n, s.m), array<int, 2>{1, s.ldc}).slice(column, row);
  auto sum = op.template get_destination_cooperative_tensor<decltype(in.a), decltype(in.b), S>();
  op.run(in.a, in.b, sum);
#pragma unroll
  for (ushort i = 0; i < sum.get_capacity(); ++i)
    if (sum.is_valid_element(i)) {
      const int x = column + sum.get_multidimensional_index(i)[0];
      if (x < s.n) sum[i] += S(bias[x]);
    }
  store_converted<decltype(in.a), decltype(in.b)>(op, sum, out);
}

// Writes directly to memory: C = A B, or C += A B in steps of 16 along K.
template <class A, class B, class S, class C, int M, int N, bool TA, bool TB, class Scope>
kernel void direct(device A* a, device B* b, device C* c, constant Sizes& s, device float* accumulate,
                   uint2 group [[threadgroup_position_in_grid]]) {
  const int row = group.y * M, column = group.x * N;
  Operands<TA, TB, A, B> in(a, b, s, row, column);
  auto out = tensor(c, sizes_2d(s.n, s.m), array<int, 2>{1, s.ldc}).slice(column, row);
  if (accumulate[0] == 0) {
    constexpr auto what = matmul2d_descriptor(M, N, static_cast<int>(dynamic_extent), TA, TB);
    matmul2d<what, Scope> op;
    op.run(in.a, in.b, out);
    return;
  }
  constexpr auto what = matmul2d_descriptor(M, N, 16, TA, TB, false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<what, Scope> op;
  for (int k = 0; k < s.k; k += 16) {
    auto x = in.a.slice(TA ? 0 : k, TA ? k : 0);
    auto y = in.b.slice(TB ? k : 0, TB ? 0 : k);
    op.run(x, y, out);
  }
}

// Stages the operands in threadgroup memory, 32 elements of K at a time.
template <class A, class B, class S, class C, int M, int N, bool TA, bool TB, class Scope>
kernel void staged(device A* a, device B* b, device C* c, constant Sizes& s, device float* bias,
                   uint2 group [[threadgroup_position_in_grid]], uint local [[thread_index_in_threadgroup]],
                   uint3 threads [[threads_per_threadgroup]]) {
  threadgroup A ta[M * 32];
  threadgroup B tb[N * 32];
  auto left = tensor<threadgroup A, sizes_2d, tensor_inline>(ta, TA ? sizes_2d(M, 32) : sizes_2d(32, M));
  auto right = tensor<threadgroup B, sizes_2d, tensor_inline>(tb, TB ? sizes_2d(32, N) : sizes_2d(N, 32));
  const int row = group.y * M, column = group.x * N;
  Operands<TA, TB, A, B> in(a, b, s, row, column);
  constexpr auto what = matmul2d_descriptor(M, N, 32, TA, TB, false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<what, Scope> op;
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), S>();
  for (int k = 0; k < s.k; k += 32) {
    for (int i = local; i < M * 32; i += threads.x) {
      const int m = i / 32, kk = i % 32;
      const bool inside = row + m < s.m && k + kk < s.k;
      ta[TA ? kk * M + m : i] = inside ? a[TA ? (k + kk) * s.lda + row + m : (row + m) * s.lda + k + kk] : A(0);
    }
    for (int i = local; i < N * 32; i += threads.x) {
      const int n = i / 32, kk = i % 32;
      const bool inside = column + n < s.n && k + kk < s.k;
      tb[TB ? i : kk * N + n] = inside ? b[TB ? (column + n) * s.ldb + k + kk : (k + kk) * s.ldb + column + n] : B(0);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    op.run(left, right, sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  auto out = tensor(c, sizes_2d(s.n, s.m), array<int, 2>{1, s.ldc}).slice(column, row);
  store_converted<decltype(left), decltype(right)>(op, sum, out);
}

// Fills cooperative operands element by element from their coordinates, 16 elements of K at a time. Apple's matmul2d
// takes them only in execution_simdgroup.
template <class A, class B, class S, class C, int M, int N, bool TA, bool TB, class Scope>
kernel void registers(device A* a, device B* b, device C* c, constant Sizes& s, device float* bias,
                      uint2 group [[threadgroup_position_in_grid]]) {
  const int row = group.y * M, column = group.x * N;
  Operands<TA, TB, A, B> in(a, b, s, row, column);
  constexpr auto what = matmul2d_descriptor(M, N, 16, TA, TB, false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<what, Scope, mpsx::more_cooperative_operands> op;
  auto left = op.template get_left_input_cooperative_tensor<A, B, S>();
  auto right = op.template get_right_input_cooperative_tensor<A, B, S>();
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), S>();
  for (int k = 0; k < s.k; k += 16) {
    left.load(in.a.slice(TA ? 0 : k, TA ? k : 0));
#pragma unroll
    for (ushort i = 0; i < left.get_capacity(); ++i) {
      auto at = left.get_multidimensional_index(i);
      if (at[0] >= (TA ? s.m - row : s.k - k) || at[1] >= (TA ? s.k - k : s.m - row)) left[i] = A(0);
    }
    auto y = in.b.slice(TB ? k : 0, TB ? 0 : k);
#pragma unroll
    for (ushort i = 0; i < right.get_capacity(); ++i) {
      auto at = right.get_multidimensional_index(i);
      right[i] = at[0] < y.get_extent(0) && at[1] < y.get_extent(1) ? y[at] : B(0);
    }
    op.run(left, right, sum);
  }
  auto out = tensor(c, sizes_2d(s.n, s.m), array<int, 2>{1, s.ldc}).slice(column, row);
  store_converted<decltype(left), decltype(right)>(op, sum, out);
}
