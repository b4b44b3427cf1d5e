#include <metal_stdlib>
using namespace metal;
float4 widened(half4 h) { return h; }
//                               ^ cannot initialize return object of type 'float4'
kernel void f(device float4* out [[buffer(0)]], constant int4* in [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {
  float4 v = in[i];
//       ^ cannot initialize a variable of type 'float4' with an lvalue of type
  uint4 w = int4(v);
//      ^ vectors are not converted implicitly
  v = w;
//    ^ assigning to 'float4' from incompatible type 'uint4'
  out[i] = widened(half4(v));
}
