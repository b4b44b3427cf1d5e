#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              threadgroup float* t [[buffer(1)]]) {
//            ^ invalid address space qualification for buffer pointee type 'threadgroup float *'
  a[0] = t[0];
}
