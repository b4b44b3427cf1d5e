#include <metal_stdlib>
using namespace metal;
kernel void f(float* out [[buffer(0)]]) {
//            ^ pointer type must have explicit address space qualifier
  out[0] = 1;
}
