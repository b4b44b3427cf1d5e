#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;
kernel void f(device uchar* a [[buffer(0)]], device float* o [[buffer(1)]]) {
  tensor<device metal_fp4_e2m1_format, dextents<int, 2>, tensor_inline> A(a, dextents<int, 2>(4, 4));
//              ^ 'metal_fp4_e2m1_format' is not supported: it is not in Metal 4.0
}
