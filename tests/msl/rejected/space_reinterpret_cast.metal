#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4];
  device int* p = reinterpret_cast<device int*>(s);
//                ^ reinterpret_cast from 'threadgroup float *' to 'device int *' is not allowed
  out[i] = p[0];
}
