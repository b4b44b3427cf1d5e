#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
typedef dextents<int, 2> sizes;
kernel void f(device half* a, device const half* b, device float* c, threadgroup half* t [[threadgroup(0)]]) {
  auto A = tensor(a, sizes(4, 4));
  tensor<device half, sizes, tensor_inline> B(t, sizes(4, 4));
//                                          ^ cannot pass pointer to threadgroup memory as a pointer to device memory
  tensor<threadgroup half, sizes, tensor_inline> T = A;
//                                               ^ no viable conversion from 'tensor<device half
  threadgroup half* p = &A[0, 1];
//                  ^ cannot initialize a variable of type 'threadgroup half *' with an rvalue of type 'device half *'
  device half* q = t;
//             ^ cannot initialize a variable of type 'device half *' with an lvalue of type 'threadgroup half *'
}
