#include <metal_stdlib>
using namespace metal;
kernel void f(device float4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float4 v = out[i];
  if (v < 1.0f) out[i] = 0;
//    ^ a condition must be a scalar, and this is a vector of 4
  while (v == out[0]) v += 1;
//       ^ a condition must be a scalar
}
