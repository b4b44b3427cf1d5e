#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
typedef dextents<int, 2> sizes;
kernel void f(device half* a, device half* b, device float* c) {
  auto A = tensor(a, sizes(64, 64));
  auto B = tensor(b, sizes(64, 64));
  constexpr auto d = matmul2d_descriptor(16, 32, 16, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
  constexpr auto e = matmul2d_descriptor(16, 32, 16);
  matmul2d<d, execution_simdgroup> op;
  matmul2d<e, execution_simdgroup> first;
  auto x = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  auto y = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  auto z = first.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, x);
//             ^ multiply_accumulate adds to 'x', which nothing has set: Metal does not document that a new cooperative tensor is zero (section 7.2.1)
  for (ushort i = 0; i < y.get_capacity(); ++i) y[i] = 1.0f;
  op.run(A, B, y);
  first.run(A, B, z);
  x.store(tensor(c, sizes(32, 16)));
}
