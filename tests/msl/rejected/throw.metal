#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i > 3) throw 1;
//           ^ 'throw' is not supported in Metal
  out[i] = 1;
}
