#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float x = 1;
  float* p = &x;
//^ pointer type must have explicit address space qualifier
  out[i] = *p;
}
