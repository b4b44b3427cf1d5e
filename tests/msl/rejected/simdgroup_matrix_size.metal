#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  simdgroup_matrix<float, 16, 16> m;
//^ expected 8 columns and 8 rows
  out[i] = 1;
}
