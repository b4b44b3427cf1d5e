#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float4 v = float4(0);
  v.xx = float2(1);
//     ^ a swizzle that repeats a component is not assignable
  out[i] = v.x;
}
