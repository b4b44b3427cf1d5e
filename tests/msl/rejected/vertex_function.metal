#include <metal_stdlib>
using namespace metal;
vertex float4 v(uint i [[vertex_id]]) {
//            ^ vertex functions are not supported here: only compute kernels are
  return float4(i);
}
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
