#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void f(device half* a, device float* c, device int* n, device bfloat* b) {
  auto A = tensor(a, dextents<int, 2>(64, 64));
  auto A3 = tensor(a, dextents<int, 3>(4, 4, 4));
  auto C = tensor(c, dextents<int, 2>(32, 16));
  constexpr auto d = matmul2d_descriptor(16, 32);
  matmul2d<d, execution_simdgroup> op;
  op.run(A3, A, C);
//   ^ matmul2d: expected tensors of rank 2
  auto left = op.get_left_input_cooperative_tensor<half, half, float>();
//               ^ matmul2d: a cooperative operand needs a static k
  auto wrong = tensor(n, dextents<int, 2>(32, 16));
  op.run(A, A, wrong);
//   ^ matmul2d does not support this combination of element types
  constexpr auto e = convolution2d_descriptor(int4(16, 4, 4, 1), int4(-1, 4, 4, 1), int2(3, 3));
  convolution2d<e, execution_simdgroups<2>> window;
  window.run(A, A, A);
//       ^ convolution2d: expected tensors of rank 4
}
