#include <metal_stdlib>
using namespace metal;
typedef struct {
  device float* data;
  float* other;
//^ pointer type must have explicit address space qualifier: 'float * other'
} View;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4];
  View v;
  v.data = s;
//         ^ assigning to 'device float *' from incompatible type 'threadgroup float
  out[i] = v.data[0];
}
