#include <metal_stdlib>
using namespace metal;
void main() {}
//   ^ cannot be called 'main'
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
