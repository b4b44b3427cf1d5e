#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  simdgroup_int8x8 m;
//^ 'simdgroup_int8x8': expected one of simdgroup_float8x8
  out[i] = 1;
}
