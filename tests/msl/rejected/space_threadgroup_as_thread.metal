#include <metal_stdlib>
using namespace metal;
void clear(thread float* p, int n) { p[n] = 0; }
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[32];
  clear(s, 3);
//^ no known conversion from 'threadgroup float[32]'
  out[i] = s[0];
}
