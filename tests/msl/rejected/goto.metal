#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i > 3) goto end;
//           ^ 'goto' is not supported
  out[i] = 1;
  end:
//^ labeled statements are not supported
  out[i] += 1;
}
