#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(31)]]) {
//                              ^ 'buffer' attribute parameter is out of bounds: must be between 0 and 30
  a[0] = 1;
}
