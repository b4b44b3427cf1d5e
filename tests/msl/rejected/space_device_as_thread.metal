#include <metal_stdlib>
using namespace metal;
void clear(thread float* p) { *p = 0; }
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  clear(out + i);
//^ no matching function for call to 'clear': cannot pass pointer to device memory
}
