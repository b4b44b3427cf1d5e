#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device float x;
//             ^ automatic variable qualified with an address space: 'x'
  out[i] = x;
}
