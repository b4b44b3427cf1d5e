#include <metal_stdlib>
using namespace metal;
float first(const float* p) { return p[0]; }
//          ^ pointer type must have explicit address space qualifier: 'const float * p'
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = first(nullptr);
}
