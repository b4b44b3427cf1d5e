#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], constant int& n [[buffer(1)]]) {
  float a[n];
//        ^ variable length arrays are not supported
  a[0] = 1;
  out[0] = a[0];
}
