#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint2 i [[thread_position_in_grid]],
              uint3 n [[threads_per_grid]]) {
//            ^ 'threads_per_grid' of type 'uint3' and 'thread_position_in_grid' of type 'uint2' must have the same type
  a[i.x] = n.x;
}
