#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  asm("nop");
//^ 'asm' is not supported
  out[i] = 1;
}
