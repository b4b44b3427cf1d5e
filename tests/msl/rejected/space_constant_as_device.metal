#include <metal_stdlib>
using namespace metal;
constant float table[2] = {1, 2};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device float* p = &table[0];
//              ^ cannot initialize a variable of type 'device float *' with an rvalue of type 'constant float *'
  out[i] = p[0];
}
