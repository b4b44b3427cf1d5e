#include <metal_stdlib>
using namespace metal;
struct P {
  float* data;
//^ pointer type must have explicit address space qualifier
};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  P p = {nullptr};
  out[i] = p.data ? 1 : 0;
}
