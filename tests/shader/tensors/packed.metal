// Kernels for test_packed_elements.py: matmul2d whose right operand W has elements of 4 bits.
#include <metal_stdlib>
#include <metal_tensor>
#include <metal_packed_numeric>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int m, n, k, pitch, first;  // W's rows are `pitch` elements apart; its first element is at index `first`
};

typedef dextents<int, 2> Extents;

// Each threadgroup computes an M x N tile of C = A W, at once or in steps of STEP elements along K.
template <typename A, typename W, typename C, int M, int N, int STEP, bool TRANSPOSED, typename Scope>
kernel void multiply(device A* a [[buffer(0)]], device uchar* w [[buffer(1)]], device C* c [[buffer(2)]],
                     constant Sizes& s [[buffer(3)]], uint2 group [[threadgroup_position_in_grid]]) {
  using Weights = tensor<device W, Extents, tensor_inline>;
  typename Weights::data_handle_type data = w;
  const int row = group.y * M, column = group.x * N;
  const int last_row = s.first / s.pitch, last_column = s.first % s.pitch;
  const Extents size = TRANSPOSED ? Extents(s.k, s.n) : Extents(s.n, s.k);
  auto all = Weights(data, Extents(size.extent(0) + last_column, size.extent(1) + last_row), array<int, 2>{1, s.pitch});
  auto B = all.slice(last_column, last_row).slice(TRANSPOSED ? 0 : column, TRANSPOSED ? column : 0);
  auto A_rows = tensor(a, Extents(s.k, s.m)).slice(0, row);
  constexpr int k = STEP ? STEP : dynamic_length_v<int>;
  constexpr auto what = matmul2d_descriptor(
      M, N, k, false, TRANSPOSED, false,
      STEP ? matmul2d_descriptor::mode::multiply_accumulate : matmul2d_descriptor::mode::multiply);
  matmul2d<what, Scope> op;
  auto sum = op.template get_destination_cooperative_tensor<decltype(A_rows), decltype(B), C>();
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = 0;
  if (STEP == 0) {
    op.run(A_rows, B, sum);
  } else {
    for (int at = 0; at < s.k; at += STEP) {
      auto x = A_rows.slice(at, 0);
      auto y = B.slice(TRANSPOSED ? at : 0, TRANSPOSED ? 0 : at);
      op.run(x, y, sum);
    }
  }
  sum.store(tensor(c, Extents(s.n, s.m)).slice(column, row));
}

// C = A (scale * W + bias), with a scale and a bias for each output and each 64 elements along K: what language models
// with 4-bit weights compute. A SIMD group multiplies a group of 64 and then adds scale * product + bias * sum(A).
template <typename T, int M, int N>
kernel void quantized(device T* x [[buffer(0)]], device uchar* w [[buffer(1)]], device float* scales [[buffer(2)]],
                      device float* biases [[buffer(3)]], device float* c [[buffer(4)]],
                      constant Sizes& s [[buffer(5)]], uint2 group [[threadgroup_position_in_grid]],
                      ushort lane [[thread_index_in_simdgroup]]) {
  const int row = group.y * M, column = group.x * N, groups = s.k / 64;
  threadgroup float sums[M];
  tensor<device uchar, Extents, tensor_inline> bytes(w, Extents(s.k / 2, s.n));
  tensor<device uint4b_format, Extents, tensor_inline> weights(w, Extents(bytes.get_extent(0) * 2, s.n));
  auto all = tensor(x, Extents(s.k, s.m));
  constexpr auto what = matmul2d_descriptor(M, N, 64, false, true, false, matmul2d_descriptor::mode::multiply);
  matmul2d<what, execution_simdgroup> op;
  auto a = all.template slice<64, M>(0, row);
  auto b = weights.template slice<64, N>(0, column);
  auto total = op.template get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
  for (ushort i = 0; i < total.get_capacity(); ++i) total[i] = 0;
  for (int g = 0; g < groups; ++g) {
    auto product = op.template get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    auto left = all.template slice<64, M>(g * 64, row);
    auto right = weights.template slice<64, N>(g * 64, column);
    op.run(left, right, product);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (int r = lane; r < M; r += 32) {
      float sum = 0;
      for (int k = 0; k < 64; ++k) sum += float(x[(row + r) * s.k + g * 64 + k]);
      sums[r] = sum;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort i = 0; i < total.get_capacity(); ++i) {
      if (!total.is_valid_element(i)) continue;
      const auto at = total.get_multidimensional_index(i);
      const int parameter = (column + at[0]) * groups + g;
      total[i] += scales[parameter] * product[i] + biases[parameter] * sums[at[1]];
    }
  }
  total.store(tensor(c, Extents(s.n, s.m)).slice(column, row));
}

// Multiplies by weights that the threads have copied to threadgroup memory.
kernel void staged(device half* a [[buffer(0)]], device uchar* w [[buffer(1)]], device float* c [[buffer(2)]],
                   uint first [[thread_index_in_threadgroup]]) {
  threadgroup uchar copy[32 * 64 / 2];
  for (uint i = first; i < sizeof(copy); i += 128) copy[i] = w[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tensor<threadgroup int4b_format, extents<int, 64, 32>, tensor_inline> B(copy, extents<int, 64, 32>());
  auto A = tensor(a, extents<int, 64, 64>());
  constexpr auto what = matmul2d_descriptor(64, 32, 64, false, true);
  matmul2d<what, execution_simdgroups<4>> op;
  auto C = tensor(c, extents<int, 32, 64>());
  op.run(A, B, C);
}
