#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint n [[buffer(1)]]) {
//            ^ type 'uint' is not valid for attribute 'buffer'
  a[0] = n;
}
