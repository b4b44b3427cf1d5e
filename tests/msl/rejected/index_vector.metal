#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint2 i [[thread_index_in_simdgroup]]) {
//            ^ type 'uint2' is not valid for attribute 'thread_index_in_simdgroup'
  a[0] = i.x;
}
