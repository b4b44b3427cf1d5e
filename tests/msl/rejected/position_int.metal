#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              int3 i [[threadgroup_position_in_grid]]) {
//            ^ type 'int3' is not valid for attribute 'threadgroup_position_in_grid'
  a[0] = i.x;
}
