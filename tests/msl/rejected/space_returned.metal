#include <metal_stdlib>
using namespace metal;
device float* shift(threadgroup float* p) { return p + 1; }
//                                                 ^ cannot initialize return object of type 'device float *'
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4];
  out[i] = shift(s)[0];
}
