#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              device float* b [[buffer(0)]]) {
//                              ^ cannot reserve 'buffer' location at index 0: 'a' uses it
  a[0] = b[0];
}
