#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  thread_local int x;
//^ 'thread_local' is not supported
  out[i] = x;
}
