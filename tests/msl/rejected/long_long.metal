#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  long long n = i;
//^ 'long long' is not supported
  out[i] = float(n);
}
