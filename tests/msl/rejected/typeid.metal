#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = &typeid(out[i]) != nullptr;
//          ^ 'typeid' is not supported
}
