#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint i) {
//            ^ invalid type 'uint' for input declaration in a kernel function: parameter 'i'
  a[i] = 1;
}
