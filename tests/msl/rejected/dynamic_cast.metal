#include <metal_stdlib>
using namespace metal;
struct A {};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  A a;
  thread A* p = dynamic_cast<thread A*>(&a);
//              ^ 'dynamic_cast' is not supported
  out[i] = p ? 1 : 0;
}
