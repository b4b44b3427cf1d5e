#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  simdgroup_matrix<int, 8, 8> m;
//^ 'simdgroup_matrix<int, …>': expected half, bfloat or float
  out[i] = 1;
}
