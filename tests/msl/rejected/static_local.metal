#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  static int calls = 0;
//^ variables in function scope cannot be declared static
  out[i] = ++calls;
}
