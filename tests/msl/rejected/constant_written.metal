#include <metal_stdlib>
using namespace metal;
constant float table[2] = {1, 2};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  table[0] = 3;
//         ^ read-only
  out[i] = table[1];
}
