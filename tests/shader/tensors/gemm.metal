// C = op(A) op(B) for row-major matrices of any size: one threadgroup per M x N tile.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int m, n, k, lda, ldb, ldc;
};

template <class T, int M, int N, int GROUPS, bool TRANSPOSE_A, bool TRANSPOSE_B>
kernel void gemm(device T* a, device T* b, device T* c, constant Sizes& s,
                 uint3 group [[threadgroup_position_in_grid]]) {
  typedef dextents<int, 2> extents;
  auto A = tensor(a, TRANSPOSE_A ? extents(s.m, s.k) : extents(s.k, s.m), array<int, 2>{1, s.lda});
  auto B = tensor(b, TRANSPOSE_B ? extents(s.k, s.n) : extents(s.n, s.k), array<int, 2>{1, s.ldb});
  auto C = tensor(c, extents(s.n, s.m), array<int, 2>{1, s.ldc});

  // Eight rows of tiles at a time, whose operands stay in the cache.
  const int rows = (s.m + M - 1) / M, columns = (s.n + N - 1) / N, tile = group.x;
  const int first = tile / (8 * columns) * 8, height = min(rows - first, 8), i = tile % (8 * columns);
  const int row = (first + i % height) * M, column = i / height * N;

  constexpr auto descriptor = matmul2d_descriptor(M, N, static_cast<int>(dynamic_extent), TRANSPOSE_A, TRANSPOSE_B);
  matmul2d<descriptor, execution_simdgroups<GROUPS>> op;
  auto left = A.slice(TRANSPOSE_A ? row : 0, TRANSPOSE_A ? 0 : row);
  auto right = B.slice(TRANSPOSE_B ? 0 : column, TRANSPOSE_B ? column : 0);
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  op.run(left, right, sum);
  sum.store(C.slice(column, row));
}
