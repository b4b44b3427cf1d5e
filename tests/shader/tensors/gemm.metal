// C = op(A) op(B) for row-major matrices of any size. Each threadgroup computes an M x N tile of one split of K.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int m, n, k, lda, ldb, ldc;
  int k_part;      // c holds one partial result per split of K
  int group_rows;  // tile rows per group
};

template <class T, class R, int M, int N, int GROUPS, bool TRANSPOSE_A, bool TRANSPOSE_B>
kernel void gemm(device T* a, device T* b, device R* c, constant Sizes& s,
                 uint3 group [[threadgroup_position_in_grid]]) {
  typedef dextents<int, 2> extents;
  const int k = group.z * s.k_part, end = min(s.k, k + s.k_part);
  auto A = tensor(a, TRANSPOSE_A ? extents(s.m, end) : extents(end, s.m), array<int, 2>{1, s.lda});
  auto B = tensor(b, TRANSPOSE_B ? extents(end, s.n) : extents(s.n, end), array<int, 2>{1, s.ldb});
  auto C = tensor(c + long(group.z) * s.m * s.ldc, extents(s.n, s.m), array<int, 2>{1, s.ldc});

  // Traverse the tiles in groups of tile rows, to keep the operands in the cache.
  const int rows = (s.m + M - 1) / M, columns = (s.n + N - 1) / N, tile = group.x;
  const int in_group = s.group_rows * columns, first = tile / in_group * s.group_rows, i = tile % in_group;
  const int height = min(rows - first, s.group_rows);
  const int row = (first + i % height) * M, column = i / height * N;

  constexpr auto descriptor = matmul2d_descriptor(M, N, static_cast<int>(dynamic_extent), TRANSPOSE_A, TRANSPOSE_B);
  matmul2d<descriptor, execution_simdgroups<GROUPS>> op;
  auto left = A.slice(TRANSPOSE_A ? row : k, TRANSPOSE_A ? k : row);
  auto right = B.slice(TRANSPOSE_B ? k : column, TRANSPOSE_B ? column : k);
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  op.run(left, right, sum);
  // Only tensors of the same element type can be stored, so copy the sums to the layout's tensor of type R.
  auto result = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), R>();
#pragma unroll
  for (ushort i = 0; i < sum.get_capacity(); ++i) result[i] = R(sum[i]);
  result.store(C.slice(column, row));
}

// Sums the partial results of all splits of K. Each thread computes four elements.
template <class T>
kernel void split_k_reduce(device float4* parts, device vec<T, 4>* c, constant int& count, constant int& splits,
                           uint i [[thread_position_in_grid]]) {
  if (int(i) >= count) return;
  float4 sum = parts[i];
  for (int part = 1; part < splits; ++part) sum += parts[part * count + i];
  c[i] = vec<T, 4>(sum);
}
