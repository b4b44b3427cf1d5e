#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint i [[thread_position_in_grid]],
              uint j [[thread_position_in_grid]]) {
//                     ^ declaration with attribute 'thread_position_in_grid' already specified
  a[i] = j;
}
