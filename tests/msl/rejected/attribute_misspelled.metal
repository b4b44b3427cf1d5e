#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint i [[thread_positon_in_grid]]) {
//                     ^ unknown attribute 'thread_positon_in_grid'; did you mean 'thread_position_in_grid'?
  a[i] = 1;
}
