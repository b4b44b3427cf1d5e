#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;
kernel void f(tensor<device int4b_format, dextents<int, 2>> a [[buffer(0)]], device float* o [[buffer(1)]]) {
//            ^ parameter 'a' of kernel 'f': a tensor with elements of 4 bits cannot be bound to a buffer
  o[0] = a.get_extent(0);
}
