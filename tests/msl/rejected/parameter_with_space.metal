#include <metal_stdlib>
using namespace metal;
float twice(device float x) { return 2 * x; }
//          ^ parameter may not be qualified with an address space
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = twice(1);
}
