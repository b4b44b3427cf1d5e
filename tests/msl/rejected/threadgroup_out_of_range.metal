#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              threadgroup float* t [[threadgroup(31)]]) {
//                                   ^ 'threadgroup' attribute parameter is out of bounds
  a[0] = t[0];
}
