#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
kernel void g(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  f(out, i);
//^ kernel function 'f' cannot be called from kernel 'g'
}
