#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]]) {
//                                             ^ '{' is never closed
  out[0] = 1;
