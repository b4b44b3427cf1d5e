#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]],
              thread float* in [[buffer(1)]]) {
//            ^ invalid address space qualification for kernel parameter 'thread float *'
  out[0] = in[0];
}
