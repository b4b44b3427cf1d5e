#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]]) {
//                                             ^ unmatched '{'
  out[0] = 1;
