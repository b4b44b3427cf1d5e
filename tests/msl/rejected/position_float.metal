#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              float i [[thread_position_in_grid]]) {
//            ^ type 'float' is not valid for attribute 'thread_position_in_grid'
  a[0] = i;
}
