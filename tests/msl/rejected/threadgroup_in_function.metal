#include <metal_stdlib>
using namespace metal;
float sum(float x) {
  threadgroup float s[32];
//                  ^ variables in the threadgroup address space belong in kernel functions: 's' in 'sum'
  s[0] = x;
  return s[0];
}
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = sum(1);
}
