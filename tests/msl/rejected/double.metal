#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  double x = out[i];
//^ 'double' is not supported in Metal
  out[i] = float(x);
}
