#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              constant uint& i [[thread_position_in_grid]]) {
//            ^ it is passed by value
  a[0] = i;
}
