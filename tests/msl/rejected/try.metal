#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  try {
//^ 'try' is not supported in Metal
    out[i] = 1;
  } catch (...) {
  }
}
