#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              device float* t [[threadgroup(0)]]) {
//            ^ is not valid for attribute 'threadgroup'
  a[0] = t[0];
}
