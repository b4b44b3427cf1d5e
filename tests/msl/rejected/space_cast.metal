#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4];
  device float* p = (device float*)s;
//                                 ^ C-style cast from 'threadgroup float *' to a pointer to device memory
  out[i] = p[0];
}
