#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
kernel void f(device int* out [[buffer(0)]]) {
//          ^ 'f' is already defined
  out[0] = 1;
}
