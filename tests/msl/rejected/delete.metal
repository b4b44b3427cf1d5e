#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  thread float* p = nullptr;
  delete p;
//^ 'delete' is not supported
  out[i] = 1;
}
