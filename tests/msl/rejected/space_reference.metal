#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  thread float& x = out[i];
//              ^ binding reference of type 'float' to value of type 'device float' changes address space
  x = 1;
}
