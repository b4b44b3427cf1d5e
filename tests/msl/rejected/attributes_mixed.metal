#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0), threadgroup(0)]]) {
//                                         ^ attributes 'buffer' and 'threadgroup' cannot both apply
  a[0] = 1;
}
