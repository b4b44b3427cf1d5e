#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  long double x = 1;
//^ 'long double' is not supported
  out[i] = float(x);
}
