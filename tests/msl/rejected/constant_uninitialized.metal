#include <metal_stdlib>
using namespace metal;
constant float scale;
//             ^ variable in constant address space must be initialized: 'scale'
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = scale;
}
