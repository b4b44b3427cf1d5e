#include <metal_stdlib>
using namespace metal;
kernel void vectors(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  int4 whole = int4(1, 2, 3, 4);
  float4 v = whole;
//       ^ cannot convert 'int4' to 'float4' implicitly
  half4 h = half4(1.0h);
  float4 wide = h;
//       ^ cannot convert 'half4' to 'float4' implicitly
  if (v < wide) out[i] = 1;
//    ^ a condition must be a scalar
  float3 three = v;
//       ^ cannot convert 'float4' to 'float3' implicitly
  out[i] = v + 1;
//           ^ assigning to 'float' from incompatible type 'float4'
  v = v * whole;
//      ^ vector operands have different component types
  v.q = 3;
//  ^ no member named 'q' in 'float4'
  float2 two = v.xyz;
//       ^ cannot convert 'float3' to 'float2' implicitly
}
