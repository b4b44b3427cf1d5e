#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  thread int* p = (thread int*)(out + i);
//                             ^ C-style cast from 'device float *' to a pointer to thread memory
  out[i] = p[0];
}
