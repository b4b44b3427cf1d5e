#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer]]) {
//                              ^ 'buffer' attribute takes one argument
  a[0] = 1;
}
